"""Calls that are right stay as they are, whatever looks like a slip in them: each was once changed or refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.providers.toolmode.aftercheck import checked, find_made_up
from aish.providers.toolmode.asked import Asked
from aish.types.messages import AssistantMessage, Message, TextPart, ToolMessage, user
from aish.types.tools import Effect, ToolSpec

KINDS = {"s": "string", "n": "number", "i": "integer", "b": "boolean"}
PARAMETER = re.compile(r"(\w+)(!?):([snib])(\*?)(?:\[([^\]]*)\])? ?(.*)")

# What is asked (turns of u: user, a: assistant, t: tool), the parameters, and the right arguments. A parameter is
# name, ! if it is required, its kind (* for a list of them), [its choices] and its description.
RIGHT: list[tuple[str | tuple[str, ...], str, dict[str, Any]]] = [
    ("convert 90 minutes to hours",
     "amount!:n Amount of time that is converted to hours;;source!:s",
     {"amount": 90, "source": "minutes"}),
    ("how many seconds are 3 hours",
     "amount!:n Amount to convert to seconds;;unit!:s Unit of the amount",
     {"amount": 3, "unit": "hours"}),
    ("Set a timer for 5 minutes",
     "value!:i Number, e.g. 30 for 30 seconds;;unit!:s[seconds|minutes|hours] the unit",
     {"value": 5, "unit": "minutes"}),
    ("The house costs 2m euros and is 300 m from the sea",
     "price!:n Price in euros;;distance!:n Distance to the sea in meters",
     {"price": 2000000, "distance": 300}),
    ("Give the VM 4 GB and 2 cores", "memory_mb!:i Memory in MB;;cores!:i", {"memory_mb": 4096, "cores": 2}),
    ("Give the VM 16 GB of memory", "memory!:i Memory in megabytes", {"memory": 16384}),
    ("Upload at most 2 MB", "max_bytes!:i Limit in bytes", {"max_bytes": 2000000}),
    ("Upload at most 2 MiB", "max_bytes!:i Limit in bytes", {"max_bytes": 2097152}),
    ("The pump moves 30 liters every minute, 10 minutes long",
     "rate!:n Liters each minute;;seconds!:n",
     {"rate": 30, "seconds": 600}),
    ("Timeout 30s and retry after 2 min", "timeout_ms!:i;;retry_s!:i", {"timeout_ms": 30000, "retry_s": 120}),
    ("The movie is 2 hours 10 minutes", "runtime!:i Runtime in minutes", {"runtime": 130}),
    ("The movie runs 2 hours and 10 minutes, save it", "minutes!:i Total length in minutes", {"minutes": 130}),
    ("He is 1 m 80 tall", "height!:n Height in cm", {"height": 180}),
    ("He is 5 foot 10", "height_in!:n Height in inches", {"height_in": 70}),
    ("Ship 3 boxes of 5 kg", "weight!:n Total weight in kg;;boxes!:i", {"weight": 15, "boxes": 3}),
    ("Every 2 weeks",
     "interval!:i How often, in units of frequency (days by default);;frequency!:s[days|weeks]",
     {"interval": 2, "frequency": "weeks"}),
    ("Crop at 3 min 20 s", "start!:n Start in seconds", {"start": 200}),
    ("jump to 3 min, length 20 s", "start_s!:n;;length_s!:n", {"start_s": 180, "length_s": 20}),
    ("A 5 mile run in 40 minutes", "distance_km!:n;;minutes!:n", {"distance_km": 8.05, "minutes": 40}),
    ("Trim 2 cm, the board is 2 m", "trim_mm!:n;;board_mm!:n", {"trim_mm": 20, "board_mm": 2000}),
    ("Acceleration of 3 g for 10 s",
     "acceleration!:n In multiples of g, not in kilograms;;seconds!:n",
     {"acceleration": 3, "seconds": 10}),
    ("cache it for a day", "ttl!:i Time to live in seconds", {"ttl": 86400}),
    ("Restaurants within 2 miles", "radius:n Radius in meters;;query!:s", {"radius": 3219, "query": "Restaurants"}),
    ("Restaurants at most 10 minutes away",
     "radius:n Radius in meters;;query!:s",
     {"radius": 800, "query": "Restaurants"}),
    ("Laufe 3,5 km in 20 Minuten", "meters!:n;;seconds!:n", {"meters": 3500, "seconds": 1200}),
    ("In USDT please", "currency!:s Currency, default 'USD', otherwise 'EUR'", {"currency": "USDT"}),
    ("Which fruit is a pineapple",
     "fruit!:s Fruit name. 'pine' and 'apple' are read as trees.",
     {"fruit": "pineapple"}),
    ("Write to report_final.txt", "name!:s File name; 'report' and 'draft' are taken", {"name": "report_final.txt"}),
    ("Look for the book Homeland", "title!:s Title without 'the' or 'home'", {"title": "Homeland"}),
    ("Open the tab settings", "tab!:s Name of the tab. Use 'set' to set and 'get' to read.", {"tab": "settings"}),
    ("Run the script deploy-prod", "script!:s Script to run (defaults: 'deploy', 'test')", {"script": "deploy-prod"}),
    ("Create branch main-fix", "branch!:s Branch name, not 'main' or 'master'", {"branch": "main-fix"}),
    ("Search for automobile prices", "query!:s Search text; 'auto' and 'all' are special", {"query": "automobile"}),
    ("model gpt-large", "model!:s Model id: 'gpt' or 'bert'", {"model": "gpt-large"}),
    ("Use sha256", "algo!:s Hash: 'sha', 'md5'", {"algo": "sha256"}),
    ("Use the python3 interpreter", "interpreter!:s Default 'python', 'node' is possible", {"interpreter": "python3"}),
    ("Color it darkblue", "color!:s CSS color; 'dark' or 'light' for the themes", {"color": "darkblue"}),
    ("Send to marketing", "channel!:s Channel. 'market' is closed, 'general' is default", {"channel": "marketing"}),
    ("Find user Annabel", "name!:s First name, 'Anna' or 'Bob'", {"name": "Annabel"}),
    ("What's the meaning of 'perform'", "word!:s The word. 'per' and 'form' would be two words", {"word": "perform"}),
    ("region us-east-1", "region!:s Region id, default 'us-east', also 'us-west'", {"region": "us-east-1"}),
    ("Play the song Yesterday", "song!:s Song title. If 'yes' or 'no' is meant, ask", {"song": "Yesterday"}),
    ('Make a note titled The trip: "The trip to Oslo is off"',
     "title!:s;;text!:s",
     {"title": "The trip", "text": "The trip to Oslo is off"}),
    ("Run 'git commit -m fix all' in repo",
     "command!:s Program to run;;args!:s* Its arguments",
     {"command": "git", "args": ["commit", "-m", "fix all"]}),
    ('Run "ls -la /tmp /var" please',
     "program!:s Name of the program;;arguments!:s The rest",
     {"program": "ls", "arguments": "-la /tmp /var"}),
    ('What is the first word of "Time flies like an arrow"?', "word!:s The first word", {"word": "Time"}),
    ('Search "Anna Karenina by Leo Tolstoy" by author and title',
     "title!:s;;author!:s",
     {"title": "Anna Karenina", "author": "Leo Tolstoy"}),
    ('Play "Imagine by John Lennon live" for me',
     "song!:s Title of the song;;artist:s",
     {"song": "Imagine", "artist": "John Lennon"}),
    ('Add "Milk from the corner shop" to my list',
     "item!:s Item;;where:s Where to buy it",
     {"item": "Milk", "where": "corner shop"}),
    ('Book at "Da Mario, Via Roma 3, Torino"',
     "restaurant!:s Name;;address!:s",
     {"restaurant": "Da Mario", "address": "Via Roma 3, Torino"}),
    ('Parse "2024-05-01 12:00 INFO server started"',
     "date!:s Date of the line;;level!:s",
     {"date": "2024-05-01", "level": "INFO"}),
    ('Parse name "Jane van der Berg" for me', "first!:s;;last!:s", {"first": "Jane", "last": "van der Berg"}),
    ('Is "Rome is the capital of Italy" true? Check Rome.', "city!:s", {"city": "Rome"}),
    ('Summarise "Rome is the capital of Italy" in a word',
     "topic!:s;;text!:s",
     {"topic": "Rome", "text": "Rome is the capital of Italy"}),
    ("grep for 'def foo(x): return x' in src", "pattern!:s;;path!:s", {"pattern": "def foo", "path": "src"}),
    ("Find 'SELECT id FROM users WHERE x' – table users",
     "statement!:s Kind of statement;;table!:s",
     {"statement": "SELECT", "table": "users"}),
    ("Ship to 12 Main St, Springfield; city Springfield",
     "address!:s The full address, with town;;city!:s",
     {"address": "12 Main St, Springfield", "city": "Springfield"}),
    ("Deliver to 5 Elm Road, Leeds",
     "address!:s Full address;;city!:s City, for the depot",
     {"address": "5 Elm Road, Leeds", "city": "Leeds"}),
    ("Look up Doe, Jane", "name!:s Name as 'Last, First';;first_name:s", {"name": "Doe, Jane", "first_name": "Jane"}),
    ("Cite Doe, Jane: Birds",
     "author!:s Last name, first name;;given!:s;;title!:s",
     {"author": "Doe, Jane", "given": "Jane", "title": "Birds"}),
    ("Weather in Austin, Texas. Write to my friend Texas",
     "location!:s City and state, like 'Austin, Texas';;to!:s",
     {"location": "Austin, Texas", "to": "Texas"}),
    ("Tag it red, blue and remove blue",
     "tags!:s Comma-separated tags;;remove!:s",
     {"tags": "red, blue", "remove": "blue"}),
    ("Where is 48.1, 11.5, lon 11.5",
     "position!:s lat, lon;;longitude!:s",
     {"position": "48.1, 11.5", "longitude": "11.5"}),
    ('Save the note "Bread, milk" under milk', "text!:s;;tag!:s", {"text": "Bread, milk", "tag": "milk"}),
    ('Say "Hello, Bo" to Bo', "message!:s What to say;;to!:s", {"message": "Hello, Bo", "to": "Bo"}),
    ('Send Bo the text "See you soon, Bo"', "to!:s;;text!:s", {"to": "Bo", "text": "See you soon, Bo"}),
    ("Email John: subject Lunch, body Hi, John", "to!:s;;body!:s", {"to": "John", "body": "Hi, John"}),
    ("Search for coffee, Berlin in Berlin", "query!:s;;city!:s", {"query": "coffee, Berlin", "city": "Berlin"}),
    ("Define the function y = 2x in the sheet", "function!:s Full definition, like y = x + 1", {"function": "y = 2x"}),
    ("Where is function f(x) = 1 defined", "function!:s Definition with its name", {"function": "f(x) = 1"}),
    ("Solve x = 3y with function y=3", "function!:s Equation, with both sides", {"function": "y=3"}),
    ("on 2024-03-05", "date!:s Date in any form, shown as DD.MM.YYYY in the result", {"date": "2024-03-05"}),
    ("on 2024-03-05", "date!:s ISO 8601 date; the page shows it as DD/MM/YYYY", {"date": "2024-03-05"}),
    ("on 2024-03-05", "date!:s Date such as March 5, 2024 (not YYYY-MM-DD)", {"date": "March 5, 2024"}),
    ("on March 5, 2024", "date!:s YYYY-MM-DD or natural language", {"date": "March 5, 2024"}),
    ("the day 1 January 2024 wins",
     "text!:s Text to post; dates in it are read as YYYY-MM-DD",
     {"text": "1 January 2024"}),
    ("find 'March 5, 2024' in logs that have YYYY-MM-DD",
     "query!:s Text to find in files named YYYY-MM-DD.log",
     {"query": "March 5, 2024"}),
    ("Remind me at 9:30 to leave at 10", "time!:s Time HH:MM;;text!:s", {"time": "10:00", "text": "leave"}),
    ("Train arrives 18:05, remind me 15 minutes before", "time!:s HH:MM;;text:s", {"time": "17:50"}),
    ("Meeting starts 9:00 and lasts an hour", "start!:s HH:MM;;end!:s HH:MM", {"start": "09:00", "end": "10:00"}),
    ("Book from 14:30 for 2 hours", "start!:s HH:MM;;end!:s HH:MM", {"start": "14:30", "end": "16:30"}),
    ("Das Treffen um 14:30 Uhr dauert 90 Minuten", "start!:s;;end!:s", {"start": "14:30", "end": "16:00"}),
    ("15:00 in Berlin, what's that in UTC in summer", "utc_time!:s Time in UTC", {"utc_time": "13:00"}),
    ("Read John 3:16 in the evening", "verse!:s;;time!:s", {"verse": "3:16", "time": "20:00"}),
    ("a reminder at 8 in the morning, meeting 10:15", "time!:s", {"time": "08:00"}),
    ("Remind me at eight about my 10:15", "time!:s", {"time": "08:00"}),
    ("um acht erinnern, Termin 10:15", "time!:s", {"time": "08:00"}),
    ("à 8h rappelle-moi le train de 10:15", "time!:s", {"time": "08:00"}),
    ("Lap time 1:45, start at 7 tomorrow", "start!:s HH:MM", {"start": "07:00"}),
    ("Wake me before my 6:45 train, an hour earlier", "time!:s", {"time": "05:45"}),
    ("Cut thirty seconds of the 3:45 song", "to!:s", {"to": "00:30"}),
    ("Invite Ada and call me", "people!:s*", {"people": ["Ada"]}),
    ("Email Ada and attach budget.pdf", "to!:s*;;attachments!:s*", {"to": ["Ada"], "attachments": ["budget.pdf"]}),
    ("Tag the photo beach and share it", "tags!:s*", {"tags": ["beach"]}),
    ("Lights in the kitchen and heat to 20", "rooms!:s*;;temp!:i", {"rooms": ["kitchen"], "temp": 20}),
    ("A pizza with ham and a salad", "toppings!:s*;;sides!:s*", {"toppings": ["ham"], "sides": ["salad"]}),
    ("A pizza with ham and a large coke", "toppings!:s*;;drink!:s", {"toppings": ["ham"], "drink": "large coke"}),
    ("Order a burger with onions and fries", "toppings!:s*;;sides!:s*", {"toppings": ["onions"], "sides": ["fries"]}),
    ("Delete a.txt, b.txt and keep c.txt", "files!:s*", {"files": ["a.txt", "b.txt"]}),
    ("Delete a.txt and keep c.txt", "files!:s*", {"files": ["a.txt"]}),
    ("Rooms 3 and 4, 2 nights", "rooms!:i*;;nights!:i", {"rooms": [3, 4], "nights": 2}),
    ("Take 10, 20, 30 and 5 as the offset", "values!:n*;;offset!:n", {"values": [10, 20, 30], "offset": 5}),
    ("RGB 255, 128, 0 and 50% opacity",
     "color!:i*;;opacity!:n Opacity in percent",
     {"color": [255, 128, 0], "opacity": 50}),
    ("Find jobs with python and remote work", "skills!:s*;;remote!:b", {"skills": ["python"], "remote": True}),
    ("Skills: python, sql and remote only", "skills!:s*;;remote!:b", {"skills": ["python", "sql"], "remote": True}),
    ("Remove the tag old and add new", "remove!:s*;;add!:s*", {"remove": ["old"], "add": ["new"]}),
    ("Select name and order by age", "columns!:s*;;order_by!:s", {"columns": ["name"], "order_by": "age"}),
    ("What can I cook with eggs and how long", "ingredients!:s*", {"ingredients": ["eggs"]}),
    ("What can I cook with eggs and what with ham", "ingredients!:s*", {"ingredients": ["eggs"]}),
    ("Genres like jazz and nothing else", "genres!:s*", {"genres": ["jazz"]}),
    ("hotels with a pool and cheap", "amenities!:s*", {"amenities": ["pool"]}),
    ("Get the stock of Apple and MSFT", "symbols!:s* Ticker symbols", {"symbols": ["AAPL", "MSFT"]}),
    ("Weekdays except Friday", "days!:s*", {"days": ["Monday", "Tuesday", "Wednesday", "Thursday"]}),
    ("Monday through Wednesday", "days!:s*", {"days": ["Monday", "Tuesday", "Wednesday"]}),
    ("On the weekend and on Friday", "days!:s*", {"days": ["Friday", "Saturday", "Sunday"]}),
    ("Search flights from London to JFK", "airports!:s* IATA codes", {"airports": ["LHR", "JFK"]}),
    ("Translate to French and Mandarin", "languages!:s* ISO codes", {"languages": ["fr", "zh"]}),
    ("synonyms of happy", "words!:s* The word and its synonyms", {"words": ["happy", "glad", "joyful"]}),
    ("Make a season poll with spring and the others",
     "options!:s*",
     {"options": ["spring", "summer", "autumn", "winter"]}),
    ("All primary colors like red", "colors!:s*", {"colors": ["red", "yellow", "blue"]}),
    ("Transfiere 2.500.000 pesos", "amount!:n", {"amount": 2500000}),
    ("Verse 12 500 euros", "amount!:n", {"amount": 12500}),
    ("Pay CHF 12'500", "amount!:n", {"amount": 12500}),
    ("Zahle 0,5 Bitcoin", "amount!:n", {"amount": 0.5}),
    ("1.5 million dollars over 15 years", "amount!:n;;years!:i", {"amount": 1500000, "years": 15}),
    ("$2.5B valuation", "n!:n Dollars", {"n": 2500000000}),
    ("$250k in 25 shares", "n!:n Dollars;;shares!:i", {"n": 250000, "shares": 25}),
    ("3 Mio Euro", "n!:n", {"n": 3000000}),
    ("25 lakh rupees", "n!:n", {"n": 2500000}),
    ("5 crore", "n!:n", {"n": 50000000}),
    ("Call +49 151 23456", "phone!:i digits only", {"phone": 4915123456}),
    ("version 1.20", "major!:i;;minor!:i", {"major": 1, "minor": 20}),
    ("Send 0.5 ether", "wei!:i", {"wei": 500000000000000000}),
    ("15 basis points", "rate!:n Rate as a decimal", {"rate": 0.0015}),
    ("The temperature fell by -5, magnitude", "drop!:n Size of the drop, positive", {"drop": 5}),
    ("run head -20 file", "lines!:i How many lines", {"lines": 20}),
    ("kill -9 123", "signal!:i Number of the signal;;pid!:i", {"signal": 9, "pid": 123}),
    ("Show the log with tail -50", "lines!:i", {"lines": 50}),
    ("list:\n-3 apples\n-4 pears", "apples!:i;;pears!:i", {"apples": 3, "pears": 4}),
    ("ten minus 3", "a!:n;;b!:n", {"a": 10, "b": 3}),
    ("What is x minus 3 if x is 10", "a!:n;;b!:n", {"a": 10, "b": 3}),
    ("What's the total minus 15", "discount!:n Amount taken off", {"discount": 15}),
    ("Total less -15 credit", "credit!:n Positive", {"credit": 15}),
    ("The ID is 4,5", "id!:n", {"id": 4.5}),
    ("4K video", "height!:i", {"height": 2160}),
    ("5% interest on 5 euros",
     "amount!:n Amount in decimal notation;;rate!:n Interest in percent",
     {"amount": 5, "rate": 5}),
    ("20% tip on 20 dollars", "bill!:n Bill as a decimal number;;tip!:n Tip in %", {"bill": 20, "tip": 20}),
    ("A rate of 5% and heart rate 5", "heart_rate!:n beats;;pct!:n", {"heart_rate": 5, "pct": 5}),
    ("battery at 20%, frame rate 20",
     "frame_rate!:n Frames each second;;battery!:n Battery in %",
     {"frame_rate": 20, "battery": 20}),
    ("With 60% humidity a heart rate of 60", "heart_rate!:n;;humidity!:n percent", {"heart_rate": 60, "humidity": 60}),
    ("Zinssatz 3,5 %", "zins!:n Zinssatz in Prozent", {"zins": 3.5}),
    ("Find cheap hotels in Rome", "city!:s;;sort_by:s[price|rating|distance]", {"city": "Rome", "sort_by": "price"}),
    ("the newest papers about bees", "query!:s;;sort:s[date|relevance]", {"query": "bees", "sort": "date"}),
    ("the best papers about bees", "query!:s;;sort:s[rating|date]", {"query": "bees", "sort": "rating"}),
    ("Urgent: fix the login bug",
     "title!:s;;priority:s[low|medium|high]",
     {"title": "fix the login bug", "priority": "high"}),
    ("translate hello to German politely",
     "text!:s;;to!:s;;formality:s[formal|informal]",
     {"text": "hello", "to": "German", "formality": "formal"}),
    ("Make it shorter: bla bla", "text!:s;;length:s[brief|full]", {"text": "bla bla", "length": "brief"}),
    ("A flight for me, my wife and our baby", "adults:i;;infants:i;;to:s", {"adults": 2, "infants": 1}),
    ("A table for me and Bo", "guests:i", {"guests": 2}),
    ("Which songs did the Beatles release in the sixties",
     "artist!:s;;from_year:i;;to_year:i",
     {"artist": "Beatles", "from_year": 1960, "to_year": 1969}),
    ("Films from the 80s", "from_year:i;;to_year:i", {"from_year": 1980, "to_year": 1989}),
    ("remind me this evening to call mum", "text!:s;;hour:i", {"text": "call mum", "hour": 18}),
    ("Remind me at noon to eat", "text!:s;;hour:i", {"text": "eat", "hour": 12}),
    ("I don't want any detailed report on Rome", "city!:s;;style:s[detailed|short]", {"city": "Rome"}),
    ("I'd rather not get a detailed report on Rome", "city!:s;;style:s[detailed|short]", {"city": "Rome"}),
    ("Weather in Rome, neither celsius nor anything fancy", "city!:s;;unit:s[celsius|fahrenheit]", {"city": "Rome"}),
    ("Instead of celsius use the default for Rome", "city!:s;;unit:s[celsius|fahrenheit]", {"city": "Rome"}),
    ("Dr. Light wants the lamp on", "device!:s;;level:s[light|dark]", {"device": "lamp"}),
    ("Not in French, please: define cat", "word!:s;;language:s", {"word": "cat"}),
    ("Which animals are most common in German forests", "query!:s;;language:s", {"query": "animals German forests"}),
    ("I hate notifications. Mute chat", "where!:s;;notifications:b", {"where": "chat"}),
    ("is the recursive flag dangerous with rm", "command!:s;;recursive:b", {"command": "rm"}),
    ("rm is dangerous if recursive; explain rm", "command!:s;;recursive:b", {"command": "rm"}),
    ("find fast-food places", "query!:s;;speed:s[slow|fast]", {"query": "food places"}),
    ("Weather at a 2 meter by 3 meter garden", "query!:s;;unit:s", {"query": "garden"}),
    (("u: Set a timer for 5 minutes", "a: Done.", "u: make it 10"), "seconds!:i", {"seconds": 600}),
    (("u: Send 'Hello my dear old friend' to Bo", "a: Done", "u: Now just Hello to Cy"),
     "text!:s;;to!:s",
     {"text": "Hello", "to": "Cy"}),
    (("u: Meeting at 14:30 with Bo", "a: Noted", "u: move it by an hour"), "time!:s", {"time": "15:30"}),
    (("u: The meeting is at 14:30", "a: Noted. I suggest 16:00", "u: ok take that"), "time!:s", {"time": "16:00"}),
    (("u: pick a city starting like Madrid", "a: Malaga?", "u: yes"), "city!:s", {"city": "Malaga"}),
    (("u: 15 euros for Bo", "a: ok", "u: ten times that"), "amount!:n", {"amount": 150}),
    (("u: Pay 12.5", "a: done", "u: now that times 10"), "amount!:n", {"amount": 125}),
    ("Weather in Munchen", "city!:s", {"city": "Munich"}),
    ("Weather in Muenchen", "city!:s", {"city": "München"}),
    ("El tiempo en Sevilla", "city!:s", {"city": "Seville"}),
    ("Wether in Londen", "city!:s", {"city": "London"}),
    ("wetter in florenz und Firenze", "city!:s", {"city": "Florence"}),
    ("Weather in Florenz", "city!:s", {"city": "Florence"}),
    ("Weather in Genf", "city!:s", {"city": "Geneva"}),
    ("Weather in Moskau", "city!:s", {"city": "Moscow"}),
    ("Weather in the capital of Peru. Please list Lisbon's later", "city!:s", {"city": "Lima"}),
    ("Time in the capital of Brazil", "city!:s", {"city": "Brasilia"}),
    ("organise my files", "action!:s", {"action": "organize"}),
    ("What colour is it", "attribute!:s", {"attribute": "color"}),
    ("Find theatre tickets", "category!:s", {"category": "theater"}),
    ("Correct the spelling of recieve", "word!:s The word spelt correctly", {"word": "receive"}),
    ("Fix: he definately left", "text!:s Corrected text", {"text": "he definitely left"}),
    ("how many women work", "query!:s", {"query": "woman"}),
    ("Swiss trains", "country!:s", {"country": "Switzerland"}),
    ("Belgian beer", "country!:s", {"country": "Belgium"}),
    ("Reise nach Spanien", "country!:s", {"country": "Spain"}),
]  # fmt: skip


def tool(parameters: str) -> ToolSpec:
    properties: dict[str, Any] = {}
    required = []
    for text in parameters.split(";;"):
        found = PARAMETER.fullmatch(text)
        assert found, text
        name, must, kind, many, choices, about = found.groups()
        one = {"type": KINDS[kind], **({"enum": choices.split("|")} if choices else {})}
        properties[name] = {**({"type": "array", "items": one} if many else one), "description": about}
        required += [name] if must else []
    schema = {"type": "object", "properties": properties, "required": required}
    return ToolSpec("tool", "Does it.", schema, Effect.READ, "test")


def said(turn: str) -> Message:
    who, _, text = turn.partition(": ")
    spoken = {"a": AssistantMessage(text), "t": ToolMessage("1", "t", (TextPart(text),)), "u": user(text)}
    return spoken[who]


@pytest.mark.parametrize(("request_text", "parameters", "arguments"), RIGHT)
def test_a_right_call_stays_as_it_is(request_text, parameters, arguments):
    turns = [user(request_text)] if isinstance(request_text, str) else [said(turn) for turn in request_text]
    spec, asked, call = tool(parameters), Asked(turns), json.dumps(arguments, ensure_ascii=False)
    assert checked(spec, call, asked) == (call, ())
    assert find_made_up(spec, call, asked) == ""


@pytest.mark.parametrize("piece", ["1", "1,", "1 ", " 'a", "“", " ", "of ", "5 or 5 trees ", "to -3 ", "rice and "])
def test_a_long_text_of_any_kind_leaves_a_right_call_alone(piece):
    spec, text = tool("text!:s;;n!:n;;items!:s*;;max_tries:i"), piece * (100_000 // len(piece))
    call = json.dumps({"text": "Vera", "n": 1, "items": ["rice"]})
    assert checked(spec, call, Asked([user(text)])) == (call, ())


PIECES = st.sampled_from(
    (
        "5",
        "1.2.3",
        "12,5",
        "10,000",
        "9" * 400,
        "1e999",
        ".",
        ",",
        "%",
        " percent",
        " million",
        "k",
        " minutes",
        " cm",
        "µF",
        "-",
        " minus ",
        " and ",
        ", ",
        "'",
        '"',
        "$",
        " pm",
        ":30",
        " on March 3, 2027",
        "2027-03-03",
        " a list of ",
        "\n",
        "€",
    )
)
VALUES = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), PIECES, st.lists(PIECES, max_size=4)
)
DESCRIPTIONS = st.sampled_from(
    ("", "As a decimal", "In percent", "in seconds", "in mm", "'a' or 'b'", "MM-DD-YYYY", "in F")
)


@given(
    st.lists(PIECES, max_size=12).map("".join), VALUES, DESCRIPTIONS, st.sampled_from(("number", "integer", "string"))
)
def test_no_request_and_no_value_makes_the_checks_fail(request_text, value, said, kind):
    argument = {"type": kind, "description": said, "items": {"type": kind}}
    schema = {"type": "object", "properties": {"rate": argument, "start_date": argument}, "required": ["rate"]}
    spec = ToolSpec("t", "Does it.", schema, Effect.READ, "test")
    text = json.dumps({"rate": value, "start_date": value})
    found, _ = checked(spec, text, Asked([user(request_text)]))
    json.loads(found)
    find_made_up(spec, text, Asked([user(request_text)]))
