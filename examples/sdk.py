"""The OpenAI SDK against `aish serve`: a tool that the server runs, streamed. `pip install openai`, then run this."""

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8600/v1", api_key="none")
stream = client.chat.completions.create(
    model="scripted:fake-tool",
    messages=[{"role": "user", "content": "add 2 and 3"}],
    tools=[{"type": "function", "function": {"name": "runtime__add"}}],
    stream=True,
)
for chunk in stream:
    if chunk.choices and chunk.choices[0].delta.content:
        print(chunk.choices[0].delta.content, end="", flush=True)
print()
