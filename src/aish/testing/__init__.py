"""For tests of what is built on aish: a model that follows a script, and the contracts of providers and toolsets.

    answer = await Aish(Scripted("Hello.")).ask("hi")           # inside `async with`
    await provider_contract(lambda: MyProvider(url), model="m")  # raises ContractBroken, which names what is broken

None of it needs a network, a model or a test framework.
"""

from aish.providers.scripted import Scripted, call
from aish.testing.contracts import ContractBroken
from aish.testing.provider_contract import provider_contract
from aish.testing.toolset_contract import toolset_contract

__all__ = ["ContractBroken", "Scripted", "call", "provider_contract", "toolset_contract"]
