"""Vocabulary of the synthetic pages: labels, values, names and titles, all ASCII."""

from __future__ import annotations

import random
import string
from collections.abc import Callable


def _words(text: str) -> list[str]:
    return text.split()


def _phrases(text: str) -> list[str]:
    return [part.strip() for part in text.replace("\n", " ").split(";")]


WORDS = _words(
    """account annual asset audit average balance bank batch board branch budget capital cargo cash charge client
code company contract copper cost credit customer debt delivery demand deposit design discount dividend
energy engine entry equity estimate export factory fee field figure fleet freight fuel fund garden gas
global gold grade gross growth harbor health hotel import income index input insurance interest inventory
invoice item kitchen labor land lease ledger level library license limit line loan local margin market
material meeting member metal model monthly mortgage museum net network north office oil open order output
owner paper parcel parts payment payroll pension permit phase plan plant policy port power premium price
product profit project purchase quality quantity quarter rate receipt record refund region rent repair
report research reserve retail return revenue river road room route salary sales sample school sector series
service share shipment signal silver site solar south staff station status steel stock storage store summary
supply survey system target tariff tax team tennis term ticket timber tool total trade train transit
transport travel tree trust unit update usage utility value vendor vessel volume wage warehouse waste water
weather west wind winter yield zone"""
)
NAMES = _words(
    """Adams Baker Clark Davis Evans Foster Green Harris Irwin Jones Keller Lopez Mason Nolan Owens Parker Quinn
Reed Smith Turner Underhill Vance Walker Young Zimmer Ahmed Chen Dubois Fischer Garcia Haas Ito Kim Larsen
Moreau Novak Okafor Patel Rossi Sato Tanaka Wang"""
)
FIRST = _words(
    """Ada Ben Cara Dan Eva Finn Gus Hana Ivan Jo Kai Lena Max Nora Otto Pia Rob Sara Tom Uma Vera Will Zoe"""
)
CITIES = _words(
    """Austin Berlin Boston Cairo Chicago Dallas Denver Dublin Geneva Hanoi Helsinki Houston Kyoto Lagos Lima
Lisbon London Lyon Madrid Miami Milan Mumbai Nairobi Oslo Paris Porto Prague Quito Rome Seattle Seoul Sofia
Sydney Tokyo Toronto Turin Vienna Warsaw Zurich"""
)
MONTHS = _words("""Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec""")
ITEMS = _words(
    """Apples Bread Butter Chairs Coffee Desks Eggs Flour Honey Ink Juice Lamps Milk Oil Paper Pens Rice Salt Soap
Sugar Tea Wood"""
)
LABELS = _phrases(
    """Total; Subtotal; Tax; Date; Due date; Invoice no; Order no; Vendor; Customer; Account; Status; Currency;
Amount; Balance; Discount; Shipping; Weight; Quantity; Unit price; Manager; Author; Region; City; Country;
Phone; Email; Department; Project; Budget; Revenue; Profit; Cost; Net income; Gross margin; Headcount;
Rating; Score; Version; Reference; Contract; Start date; End date; Duration; Term; Rate; Interest; Deposit;
Rent; Model; Serial no; Capacity; Power; Voltage; Speed; Range; Height; Width; Length; Temperature;
Pressure; Operator; Inspector; Approved by; Prepared by; Owner; Site; Zone; Batch; Grade; Output; Input;
Yield; Demand; Supply; Price; Volume; Sales; Growth; Forecast; Target; Actual; Variance; Name; Patient;
Doctor; Room; Gate; Seat; Flight; Ticket; Tenant; Landlord; Policy no; Premium; Client; Address; Code;
Color; Size; Time; Place; Contact; Paid; Open; Method; Sample; Result; Limit; Teacher; Class; Grant; Fee"""
)
UPPER = string.ascii_uppercase
Rng = random.Random


def number(r: Rng) -> str:
    """A quantity; one in six has only two different digits, since a doubled digit is the hardest to copy."""
    text = _quantity(r)
    if r.random() < 0.17:
        pair = str(r.randint(1, 9)) + r.choice(string.digits)
        text = "".join(r.choice(pair) if c.isdigit() and i else c for i, c in enumerate(text))
    return text


def _quantity(r: Rng) -> str:
    """Plain, grouped, decimal, money or percent."""
    k = r.random()
    if k < 0.22:
        return str(r.randint(1, 99))
    if k < 0.52:
        return str(r.randint(100, 9999))
    if k < 0.6:
        return f"{r.randint(1, 999)},{r.randint(0, 999):03d}"
    if k < 0.72:
        return f"{r.randint(0, 99)}.{r.randint(0, 99):02d}"
    if k < 0.88:
        return f"${r.randint(1, 9999)}" + (f".{r.randint(0, 99):02d}" if r.random() < 0.3 else "")
    return f"{r.randint(0, 99)}.{r.randint(0, 9)}%" if r.random() < 0.5 else f"{r.randint(1, 100)}%"


def date(r: Rng) -> str:
    """A date in one of four usual spellings."""
    y, m, d = r.randint(1990, 2035), r.randint(1, 12), r.randint(1, 28)
    return r.choice(
        [
            f"{y}-{m:02d}-{d:02d}",
            f"{d} {MONTHS[m - 1]} {y}",
            f"{MONTHS[m - 1]} {d}, {y}",
            f"{m:02d}/{d:02d}/{y}",
        ]
    )


def code(r: Rng) -> str:
    """A reference such as ``AB-1234``, ``#5678`` or ``X4T9Q``."""
    k = r.randrange(4)
    if k == 0:
        return "".join(r.choice(UPPER) for _ in range(2)) + f"-{r.randint(100, 99999)}"
    if k == 1:
        return f"#{r.randint(1000, 99999)}"
    if k == 2:
        return f"{r.choice(UPPER)}{r.randint(1, 999)}"
    return "".join(r.choice(UPPER + string.digits) for _ in range(r.randint(4, 7)))


def word(r: Rng) -> str:
    """A word; one in five is made of random letters, so spelling habits do not suffice."""
    if r.random() < 0.2:
        return "".join(r.choice(string.ascii_lowercase) for _ in range(r.randint(3, 8)))
    return r.choice(WORDS)


def name(r: Rng) -> str:
    """A person or a company."""
    k = r.randrange(4)
    if k == 0:
        return r.choice(NAMES)
    if k == 1:
        return f"{r.choice(UPPER)}. {r.choice(NAMES)}"
    if k == 2:
        return f"{r.choice(FIRST)} {r.choice(NAMES)}"
    return f"{r.choice(NAMES)} {r.choice(['Ltd', 'Inc', 'Corp', 'LLC', 'GmbH', 'Co'])}"


def phrase(r: Rng) -> str:
    """One or two words."""
    return " ".join(word(r).capitalize() if r.random() < 0.3 else word(r) for _ in range(r.randint(1, 2)))


KINDS: list[tuple[Callable[[Rng], str], float]] = [
    (number, 0.42),
    (date, 0.15),
    (name, 0.14),
    (code, 0.12),
    (lambda r: r.choice(CITIES), 0.07),
    (phrase, 0.1),
]


def value_kind(r: Rng) -> Callable[[Rng], str]:
    """Choose what kind of value a label has; a form repeated on several pages keeps its kinds."""
    return r.choices([k for k, _ in KINDS], [w for _, w in KINDS])[0]


def label(r: Rng) -> str:
    """A label: half from the usual ones, half from one or two words."""
    if r.random() < 0.5:
        return r.choice(LABELS)
    return " ".join(word(r) for _ in range(r.choice([1, 1, 2]))).capitalize()


def title(r: Rng) -> str:
    """A document title."""
    k = r.randrange(6)
    if k == 0:
        return f"{word(r).capitalize()} report {r.randint(2000, 2035)}"
    if k == 1:
        return f"Invoice {r.randint(100, 99999)}"
    if k == 2:
        return f"{r.choice(CITIES)} {word(r)} {r.choice(['plan', 'summary', 'review', 'ledger'])}"
    if k == 3:
        return f"{word(r).capitalize()} {word(r)}"
    if k == 4:
        return f"{r.choice(MONTHS)} {word(r)}"
    return f"{r.choice(CITIES)} {r.choice(['office', 'branch', 'plant', 'store', 'report'])}"
