"""What a request may name: pairs of how people say it and what the argument is. Seeded by the caller's generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Said = tuple[str, Any]
Slot = Callable[[random.Random], Said]

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
_UNITS += "seventeen eighteen nineteen".split()
_TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
_MONTHS = "January February March April May June July August September October November December".split()


def in_words(number: int) -> str:
    if number < 20:
        return _UNITS[number]
    if number < 100:
        return _TENS[number // 10] + (f"-{_UNITS[number % 10]}" if number % 10 else "")
    if number < 1000:
        rest = f" and {in_words(number % 100)}" if number % 100 else ""
        return f"{_UNITS[number // 100]} hundred{rest}"
    rest = f" {in_words(number % 1000)}" if number % 1000 else ""
    return f"{in_words(number // 1000)} thousand{rest}"


def integer(low: int, high: int, words: float = 0.25) -> Slot:
    def draw(rng: random.Random) -> Said:
        value = rng.randint(low, high)
        if rng.random() < words and value < 10_000 and (value <= 30 or value % 10 == 0):
            return in_words(value), value
        return (f"{value:,}" if value > 9999 and rng.random() < 0.4 else str(value)), value

    return draw


def decimal(low: float, high: float, places: int = 1) -> Slot:
    def draw(rng: random.Random) -> Said:
        value = round(rng.uniform(low, high), rng.choice([0, places, places]))
        number: float = int(value) if value == int(value) else value
        return str(number), number

    return draw


def rate(rng: random.Random) -> Said:
    """A percentage that the schema wants as a fraction."""
    tenths = rng.choice([rng.randint(1, 30) * 10, rng.randint(5, 199)])
    value = tenths / 10
    shown = f"{value:g}"
    said = rng.choice([f"{shown}%", f"{shown}%", f"{shown} percent", f"{shown} %"])
    return said, round(tenths / 1000, 4)


def percent(rng: random.Random) -> Said:
    value = rng.choice([5, 10, 15, 18, 20, 25, 30, 40, 50, 75, 80, 90, 12.5, 7.5, 100, 3, 60])
    return rng.choice([f"{value:g}%", f"{value:g} percent", f"{value:g}%"]), value


def date(rng: random.Random) -> Said:
    year, month, day = rng.randint(1990, 2031), rng.randint(1, 12), rng.randint(1, 28)
    name = _MONTHS[month - 1]
    ending = "th" if 10 < day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    ways = (
        f"{name} {day}, {year}", f"{day} {name} {year}", f"{year}-{month:02}-{day:02}", f"{name} {day}{ending} {year}",
        f"the {day}{ending} of {name} {year}", f"{name[:3]} {day} {year}", f"{day}.{month}.{year}" if day > 12 else f"{day} {name[:3]} {year}",
    )  # fmt: skip
    return rng.choice(ways), f"{year}-{month:02}-{day:02}"


def clock(rng: random.Random) -> Said:
    hour, minute = rng.randint(0, 23), rng.choice([0, 0, 15, 30, 45, 5, 20])
    value = f"{hour:02}:{minute:02}"
    half, twelve = ("am" if hour < 12 else "pm"), hour % 12 or 12
    short = f"{twelve}{half}" if minute == 0 else f"{twelve}:{minute:02}{half}"
    return rng.choice([value, short, short.replace(half, f" {half}"), short.replace(half, f" {half}").upper()]), value


def several(inner: Slot, low: int = 2, high: int = 5) -> Slot:
    def draw(rng: random.Random) -> Said:
        parts = [inner(rng) for _ in range(rng.randint(low, high))]
        said = [str(part[0]) for part in parts]
        joiner = rng.choice([" and ", ", and ", ", "])
        return ", ".join(said[:-1]) + joiner + said[-1], [part[1] for part in parts]

    return draw


def one_of(*choices: str) -> Slot:
    """`said=value` where the two differ."""
    pairs = [(said, value or said) for said, _, value in (choice.partition("=") for choice in choices)]
    return lambda rng: rng.choice(pairs)


def words(text: str) -> Slot:
    return one_of(*(choice.strip() for choice in text.split("/")))


def email(rng: random.Random) -> Said:
    name = rng.choice(
        "anna ben.k carla dev.team e.lund farid gina.m hugo info jo_ivanova k.tanaka lena maria nils".split()
    )
    return (value := f"{name}@{rng.choice(['example.com', 'example.org', 'mail.example.net', 'acme.example'])}"), value


def path(rng: random.Random) -> Said:
    folder = rng.choice(
        ["", "src/", "docs/", "/tmp/", "/var/log/", "~/Documents/", "./data/", "app/models/", "tests/", "/home/kim/"]
    )
    name = rng.choice(
        "notes report main config index invoice photo_01 server users backup setup utils budget2024 README".split()
    )
    ending = rng.choice([".txt", ".py", ".md", ".csv", ".json", ".log", ".ts", ".pdf", ".png", ".yaml", ".rs", ".go"])
    return (value := folder + name + ending), value


def folder(rng: random.Random) -> Said:
    value = rng.choice(
        "/tmp /var/log ~/Downloads src docs /etc/nginx ./build /home/kim/photos ~/projects/web tests/unit data/raw".split()
    )
    return value, value


def code(rng: random.Random) -> Said:
    letters = "".join(rng.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=rng.randint(2, 3)))
    value = rng.choice(
        [f"{letters}-{rng.randint(100, 99999)}", f"{letters}{rng.randint(10, 9999)}", f"{rng.randint(10000, 999999)}"]
    )
    return rng.choice([value, value, f"#{value}"]).lstrip("#"), value


def phone(rng: random.Random) -> Said:
    value = f"+{rng.choice([1, 44, 49, 33, 34, 86])}{rng.randint(200000000, 999999999)}"
    return value, value


def url(rng: random.Random) -> Said:
    value = f"https://{rng.choice(['example.com', 'news.example.org', 'shop.example.net', 'blog.example.com'])}"
    value += rng.choice(["", "/about", "/feed.xml", "/p/42", "/index.html", "/api/v1/items"])
    return value, value


def point(rng: random.Random) -> Said:
    lat, lon = round(rng.uniform(-80, 80), rng.choice([2, 4])), round(rng.uniform(-170, 170), rng.choice([2, 4]))
    said = rng.choice([f"{lat}, {lon}", f"latitude {lat}, longitude {lon}", f"({lat}, {lon})", f"{lat} / {lon}"])
    return said, {"lat": lat, "lon": lon}


_CITIES = """Paris/Berlin/Tokyo/New York/London/Madrid/Rome/Vienna/Lagos/Cairo/Sydney/Toronto/Mumbai/São Paulo/Oslo/Boston
/Dublin/Prague/Seoul/Austin, Texas/Portland, Oregon/Zurich/Lima/Nairobi/Kyoto/Hamburg/Lyon/Porto/Denver/San Diego/Bogotá
/Warsaw/Helsinki/Chicago/Athens/Marseille/Hanoi/Cape Town/Miami, FL/Edinburgh/Geneva/Kraków/Naples/Leeds/Osaka/Bergen"""
_NAMES = """Anna/Ben Carter/Carla/Dmitri/Elena Rossi/Farid/Grace Kim/Hugo/Ines/Jonas Weber/Keiko/Liam/Maya Singh/Noah/Olga
/Pedro Alvarez/Quinn/Rosa/Samuel/Tara/Umar/Vera Lindqvist/Wei Chen/Yusuf/Zoe"""
_TEXTS = """I'll be ten minutes late/happy birthday!/the meeting moved to Friday/can you call me back?/dinner is ready/good luck tomorrow
/the build is green again/please send the invoice/see you at the station/don't forget the keys/we are out of milk/thanks for the help"""
_TOPICS = """climate change/electric cars/the moon landing/renaissance art/machine learning/solar panels/coffee/inflation/black holes
/quantum computing/gardening/the Roman empire/sleep/vaccines/chess openings/remote work/coral reefs/ancient Egypt/jazz/tax reform"""

SLOTS: dict[str, Slot] = {
    "n": integer(2, 30), "small": integer(1, 10, 0.35), "int": integer(2, 500), "big": integer(100, 2_000_000, 0.05),
    "num": decimal(1, 120), "dec": decimal(0.1, 9.9, 2), "temp": integer(-20, 110, 0.1), "money": decimal(2, 4000, 2),
    "sum": integer(1, 900, 0.1), "rate": rate, "pct": percent, "date": date, "time": clock, "year": integer(1800, 2025, 0),
    "yrs": integer(2, 40), "age": integer(1, 95, 0.15), "cm": integer(140, 205, 0), "kg": integer(40, 130, 0.05),
    "ints": several(integer(1, 99, 0.0), 3, 6), "nums": several(decimal(1, 99), 3, 6), "email": email, "path": path,
    "folder": folder, "code": code, "phone": phone, "url": url, "point": point,
    "city": words(_CITIES.replace("\n", "")), "name": words(_NAMES.replace("\n", "")), "text": words(_TEXTS.replace("\n", "")),
    "topic": words(_TOPICS.replace("\n", "")),
    "names": several(words(_NAMES.replace("\n", "")), 2, 3),
    "country": words("France/Germany/Japan/Brazil/Kenya/Canada/India/Mexico/Norway/Italy/Egypt/Chile/Vietnam/Poland/Spain/Peru/Ghana/New Zealand"),
    "cur": one_of("euros=EUR", "EUR", "dollars=USD", "US dollars=USD", "USD", "yen=JPY", "JPY", "pounds=GBP", "GBP", "Swiss francs=CHF", "CHF", "rupees=INR", "pesos=MXN", "yuan=CNY", "Canadian dollars=CAD", "kronor=SEK"),
    "lang": words("French/German/Spanish/Japanese/Italian/Chinese/Portuguese/Arabic/Korean/Dutch/Polish/Hindi/Turkish/Russian"),
    "langcode": one_of("French=fr", "German=de", "Spanish=es", "Japanese=ja", "Italian=it", "Chinese=zh", "Dutch=nl", "English=en", "Polish=pl"),
    "zone": one_of("Berlin=Europe/Berlin", "Tokyo=Asia/Tokyo", "New York=America/New_York", "London=Europe/London", "Paris=Europe/Paris", "Sydney=Australia/Sydney", "Los Angeles=America/Los_Angeles", "Chicago=America/Chicago", "Kolkata=Asia/Kolkata", "Madrid=Europe/Madrid", "Cairo=Africa/Cairo", "Shanghai=Asia/Shanghai", "Europe/Rome", "Asia/Seoul", "UTC"),
    "color": words("red/blue/green/warm white/purple/orange/yellow/pink/teal"),
    "room": words("kitchen/living room/bedroom/office/hallway/bathroom/garage/nursery/basement"),
    "dish": words("lasagna/pad thai/chicken curry/pancakes/ramen/tacos/mushroom risotto/apple pie/lentil soup/sushi/goulash/falafel"),
    "food": words("rice/oats/banana/salmon/chickpeas/almonds/cheddar/tofu/broccoli/avocado/pasta/eggs"),
    "foods": several(words("rice/chicken/tomatoes/onions/spinach/eggs/cheese/potatoes/mushrooms/beans/garlic/peppers/tofu")),
    "items": several(words("milk/bread/eggs/batteries/coffee/apples/soap/paper towels/rice/dog food/stamps"), 2, 4),
    "items1": words("headphones/coffee mug/running shoes/desk lamp/board game/backpack/phone case/T-shirt/water bottle/keyboard"),
    "song": words("Bohemian Rhapsody/Imagine/Clair de Lune/Billie Jean/Hallelujah/Take Five/Yesterday/Hey Ya!/Despacito"),
    "artist": words("Miles Davis/Adele/Radiohead/Nina Simone/Bach/Daft Punk/Shakira/The Beatles/Björk/Kendrick Lamar"),
    "film": words("Inception/Spirited Away/The Godfather/Amélie/Parasite/Alien/Casablanca/Toy Story/Heat/Arrival"),
    "book": words("Dune/Beloved/Emma/The Hobbit/1984/Middlemarch/The Trial/Persepolis/Moby-Dick/Kindred"),
    "author": words("Toni Morrison/Kafka/Jane Austen/Haruki Murakami/Ursula K. Le Guin/Tolstoy/Octavia Butler"),
    "team": words("Arsenal/Real Madrid/the Lakers=Lakers/Bayern Munich/Boston Celtics/Juventus/New York Yankees/Ajax/Golden State Warriors/PSG"),
    "player": words("LeBron James/Serena Williams/Lionel Messi/Stephen Curry/Roger Federer/Simone Biles/Shohei Ohtani"),
    "sport": words("basketball/soccer/tennis/baseball/hockey/rugby/volleyball/cricket"),
    "ticker": words("AAPL/TSLA/MSFT/NVDA/SAP/IBM/AMZN/GOOG/NFLX/ORCL"),
    "company": words("Apple/Tesla/Microsoft/Siemens/Toyota/Nestlé/Samsung/Netflix/Airbus/Shell/Sony"),
    "animal": words("dog/cat/rabbit/horse/parrot/hamster/tortoise/goat/elephant/owl"),
    "plant": words("tomato/basil/monstera/lavender/orchid/cactus/strawberry/fern/rosemary"),
    "planet": words("Mars/Venus/Jupiter/Saturn/Mercury/Neptune/Uranus"),
    "element": words("iron/oxygen/gold/carbon/helium/sodium/copper/uranium/neon"),
    "formula": words("H2O/CO2/NaCl/C6H12O6/CH4/NH3/H2SO4/CaCO3"),
    "word": words("serendipity/run/ephemeral/gift/resilient/hund/bank/quixotic/light/umbrella"),
    "symbol": words("parse_config/UserService/handleClick/total/read_lines/Order/retry_count/connect/isValid/TokenStream"),
    "newname": words("load_settings/AccountService/on_click/grand_total/iter_lines/Invoice/max_retries/open_socket/is_ok"),
    "cmd": words("ls -la/git status/df -h/ps aux/uname -a/whoami/docker ps/pytest -q/make test/npm install/git log --oneline -5/free -m/cat /etc/hosts/tail -n 20 app.log"),
    "host": words("example.com/192.168.1.1/db01.internal/localhost/api.example.org/10.0.0.5"),
    "repo": words("web-shop/infra/payments-api/docs-site/mobile-app/ml-tools"),
    "branch": words("main/develop/feature-login/release-2.1/hotfix/experiment"),
    "func": words("x^2/sin(x)/3x + 2/x^3 - x/e^x/2x^2 + 5x - 3/ln(x)/cos(2x)"),
    "drug": words("ibuprofen/aspirin/amoxicillin/metformin/paracetamol/insulin/warfarin"),
    "symptoms": several(words("fever/cough/headache/nausea/sore throat/dizziness/rash/back pain"), 2, 3),
    "genre": words("jazz/rock/comedy/thriller/science fiction/fantasy/horror/classical/hip hop/romance"),
    "brand": words("Toyota/Honda/BMW/Ford/Volvo/Tesla/Kia"),
    "model": words("Corolla/Civic/320i/Focus/XC60/Model 3/Sportage"),
    "landmark": words("the Eiffel Tower=Eiffel Tower/the Colosseum=Colosseum/Central Park/Machu Picchu/the Taj Mahal=Taj Mahal/Big Ben/the Louvre=Louvre"),
    "event": words("the French Revolution=French Revolution/World War II/the Black Death=Black Death/the Battle of Hastings=Battle of Hastings/the moon landing=moon landing/the fall of Constantinople=fall of Constantinople"),
    "job": words("nurse/software engineer/electrician/teacher/chef/accountant/welder/data analyst"),
    "hobby": words("hiking/pottery/salsa/yoga/photography/climbing/knitting"),
    "airport": words("JFK/LHR/CDG/FRA/NRT/SFO/MAD/AMS/BOS/VIE"),
    "hex": words("#ff8800/#1e90ff/#00ff00/#333333/#c0ffee"),
    "bits": words("1011/11001/100000/111/10101010"),
    "tag": words("urgent/work/home/ideas/later/bug/finance/family"),
    "task": words("water the plants/buy milk/call the dentist/file the tax return/clean the garage/book flights/renew my passport/pay rent/email the landlord"),
}  # fmt: skip
