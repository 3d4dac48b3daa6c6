from aish.errors import AishError as AishError
from aish.extensions.context import Context as Context
from aish.extensions.definitions import command as command
from aish.extensions.definitions import hook as hook
from aish.extensions.definitions import settings as settings
from aish.extensions.definitions import tool as tool
from aish.extensions.results import Image as Image
from aish.extensions.results import Prompt as Prompt
from aish.library.client import Aish as Aish
from aish.library.client import ReplyError as ReplyError
from aish.library.client import run as run
from aish.library.replies import Reply as Reply
from aish.types.decisions import Ask as Ask
from aish.types.decisions import Change as Change
from aish.types.decisions import Choice as Choice
from aish.types.decisions import Deny as Deny
from aish.types.decisions import HookEvent as HookEvent
from aish.types.decisions import Note as Note
from aish.types.decisions import Question as Question
from aish.types.events import Event as Event
from aish.types.events import ReasoningDelta as ReasoningDelta
from aish.types.events import Status as Status
from aish.types.events import TextDelta as TextDelta
from aish.types.events import ToolCallReady as ToolCallReady
from aish.types.events import ToolResult as ToolResult
from aish.types.events import TurnFinished as TurnFinished
from aish.types.models import AgentDefinition as AgentDefinition

__version__: str
__all__: list[str]
