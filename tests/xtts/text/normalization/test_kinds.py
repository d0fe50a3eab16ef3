"""Kinds of written amounts that were once read wrong, each in several languages."""

import unicodedata

import pytest

from xtts.text.normalization import numerals
from xtts.text.normalization.registry import LANGUAGES, rules_of

# label: [(language, written, said)]
KINDS = {
    "a full stop that is the sentence's, too": [
        ("en", "We ate etc. Then we left.", "We ate et cetera. Then we left."),
        ("en", "at 9 p.m. Then", "at nine p m. Then"),
        ("en", "It takes 5 min. Then", "It takes five minutes. Then"),
        ("de", "Obst usw. Danach", "Obst und so weiter. Danach"),
        ("es", "p. ej. Madrid", "por ejemplo Madrid"),
        ("pl", "3 maja 2021 r. Potem", "trzeciego maja dwa tysiące dwudziestego pierwszego roku. Potem"),
        ("es", "a las 14:30 h. El tren", "a las catorce treinta. El tren"),
        ("de", "in der Hauptstr. 5. Dort", "in der Hauptstraße fünf. Dort"),
        ("de", "in der Hauptstr. Dort", "in der Hauptstraße. Dort"),
        ("en", "on Fri., Oct. 3", "on Friday, October third"),
        ("nl", "€ 5 p.p.", "vijf euro per persoon."),
    ],
    "a formula": [
        ("en", r"$6x_1 + 4x_2 \leq 24$", "six x one plus four x two less than or equal to twenty-four"),
        ("en", "$x^2$ and 10^6", "x squared and ten to the power of six"),
        ("en", "5 × 3 = 15, x ≥ 5", "five times three equals fifteen, x greater than or equal to five"),
        ("de", "§ 5", "Paragraf fünf"),
    ],
    "a page, a verse, a paragraph of a book": [
        (
            "en",
            "See pp. 95/100 and ch. 12:3.",
            "See pages ninety-five to one hundred and chapter twelve three.",
        ),
        (
            "en",
            "fig. 3, vol. 2, Gen. 1:1, Psalm 23:4-6",
            "figure three, volume two, Genesis one one, Psalm twenty-three four to six",
        ),
        ("de", "Kap. 12:3, § 5 Abs. 2", "Kapitel zwölf drei, Paragraf fünf Absatz zwei"),
        ("de", "§§ 5 und 6, Art. 3", "Paragrafen fünf und sechs, Artikel drei"),
        ("fr", "art. 5 al. 2", "article cinq alinéa deux"),
        ("it", "cap. 5:3, art. 7", "capitolo cinque tre, articolo sette"),
        ("pl", "w art. 5", "w artykule pięć"),
    ],
    "a Roman numeral": [
        ("en", "Chapter IV, Act V. World War II", "Chapter four, Act five. World War two"),
        ("en", "Part I played. Part I", "Part I played. Part one"),
        ("en", "the XIX century, an IV drip", "the nineteenth century, an IV drip"),
        ("fr", "au XIXe et au Ier siècle", "au dix-neuvième et au premier siècle"),
        ("es", "el siglo XIX, cap. III", "el siglo diecinueve, capítulo tres"),
        ("it", "nel XIX secolo", "nel diciannovesimo secolo"),
        ("nl", "de XIXe eeuw", "de negentiende eeuw"),
    ],
    "a unit joined to its number": [
        (
            "en",
            "100-g bars, a 5-kg bag and a 9-in. pipe",
            "one hundred gram bars, a five kilogram bag and a nine inch pipe",
        ),
        ("en", "a 1/2-in. drill, a 2 1/2-hr drive", "a one half inch drill, a two and a half hour drive"),
        ("en", "a 3-5-kg bag", "a three to five kilogram bag"),
        ("de", "ein 5-kg-Sack", "ein fünf Kilogramm-Sack"),
        ("nl", "een 5-kg zak", "een vijf kilogram zak"),
        ("ru", "на 3-м этаже", "на третьем этаже"),
        ("en", "section 5-g", "section five-g"),
    ],
    "a short name of a time": [
        ("en", "20 yrs ago, 5 mins, 2 wks, 6 mos.", "twenty years ago, five minutes, two weeks, six months."),
        ("en", "3 in/h", "three inches per hour"),
        ("es", "5 febr. 2020", "cinco de febrero de dos mil veinte"),
        ("it", "5 genn. 2020", "cinque gennaio duemilaventi"),
        ("pl", "5 grudz. 2020", "piątego grudnia dwa tysiące dwudziestego roku"),
    ],
    "a title of a person": [
        ("en", "She has a Ph.D. He does not.", "She has a P H D. He does not."),
        ("en", "a Ph.D. in law", "a P H D in law"),
    ],
    "a half and parts before their noun": [
        (
            "de",
            "1/2 Tasse, eine 1/2 Stunde, 1/2 Becher",
            "eine halbe Tasse, eine halbe Stunde, ein halber Becher",
        ),
        ("fr", "1/2 heure, 1/2 litre", "une demi heure, un demi litre"),
        ("es", "1/2 taza, 2/5 partes", "media taza, dos quintas partes"),
        ("it", "1/2 tazza, un 1/3 dei voti", "mezza tazza, un terzo dei voti"),
        ("pt", "1/2 xícara, 1/2 copo, 2 vezes", "meia xícara, meio copo, duas vezes"),
    ],
    "an amount after a preposition": [
        ("pl", "bez 5 osób, od 2 do 3 lat", "bez pięciu osób, od dwóch do trzech lat"),
        ("pl", "dla 1 osoby", "dla jednej osoby"),
        ("pl", "do ul. Długiej", "do ulicy Długiej"),
    ],
    "a formula with a factor": [
        ("en", "$y = 3x^2$, 2^(n+1)", "y equals three x squared, two to the power of n plus one"),
        ("it", "28/30, 6 l/100 km", "ventotto su trenta, sei litri ogni cento chilometri"),
    ],
    "an area and a volume of each length": [
        ("en", "It holds 5 cm³.", "It holds five cubic centimeters."),
        ("en", "10 m³/s, 1 mm²", "ten cubic meters per second, one square millimeter"),
        ("de", "5 cm³ und 3 km²", "fünf Kubikzentimeter und drei Quadratkilometer"),
        ("de", "1 mm²", "ein Quadratmillimeter"),
        ("fr", "2 cm²", "deux centimètres carrés"),
        ("es", "5 cm³", "cinco centímetros cúbicos"),
        ("it", "5 cm²", "cinque centimetri quadrati"),
        ("nl", "5 cm³", "vijf kubieke centimeter"),
        ("pl", "5 cm³, 2 m³", "pięć centymetrów sześciennych, dwa metry sześcienne"),
        ("cs", "5 cm²", "pět centimetrů čtverečních"),
        ("ru", "5 см³, 2 м³/ч", "пять кубических сантиметров, два кубических метра в час"),
        ("hu", "5 cm²", "öt négyzetcentiméter"),
        ("tr", "5 cm²", "beş santimetrekare"),
        ("zh", "5 cm²", "五平方厘米"),
        ("ja", "5 cm²", "五平方センチメートル"),
    ],
    "a rate of what is a word elsewhere": [
        ("ru", "5 м³/с и 5 м/с", "пять кубических метров в секунду и пять метров в секунду"),
        (
            "ru",
            "250 ₽/кг, 500 руб./мес., 100 ₽/шт., 2 г/л",
            "двести пятьдесят рублей за килограмм, пятьсот рублей в месяц, сто рублей за штуку, "
            "два грамма на литр",
        ),
        (
            "pl",
            "85 m³/s, 5 MB/s, 9 zł/kg, 4 zł/szt.",
            "osiemdziesiąt pięć metrów sześciennych na sekundę, pięć megabajtów na sekundę, "
            "dziewięć złotych za kilogram, cztery złote za sztukę.",
        ),
        ("cs", "3 m/s, 5 Kč/ks", "tři metry za sekundu, pět korun za kus"),
        ("fr", "7 €/h, 8 km/j, 5 €/an", "sept euros par heure, huit kilomètres par jour, cinq euros par an"),
        ("en", "3 kWh/yr, 2.5%/yr", "three kilowatt hours per year, two point five percent per year"),
        ("nl", "5 m³/s", "vijf kubieke meter per seconde"),
        ("zh", "5 m³/s, 9 g/cm³", "五立方米每秒, 九克每立方厘米"),
        ("ja", "2 kg/m³", "二キログラム毎立方メートル"),
        ("hu", "5 m/s", "öt méter per másodperc"),
    ],
    "a power without its superscript": [
        ("ru", "30 м2, 5 м3/с", "тридцать квадратных метров, пять кубических метров в секунду"),
        ("en", "12 km2 and 3 t/m3", "twelve square kilometers and three tonnes per cubic meter"),
        ("en", "a 30 sq. ft. room", "a thirty square feet room"),
        ("ru", "3 кв. м", "три квадратных метра"),
        (
            "en",
            "30 ft³/min, 20 in², 4 psi",
            "thirty cubic feet per minute, twenty square inches, four pounds per square inch",
        ),
        ("ru", "750 мм рт. ст.", "семьсот пятьдесят миллиметров ртутного столба."),
    ],
    "a unit of physics with its prefix": [
        (
            "de",
            "20 MW, 1013 hPa, 6 W/m²",
            "zwanzig Megawatt, eintausenddreizehn Hektopascal, sechs Watt pro Quadratmeter",
        ),
        ("es", "230 V, 250 kcal", "doscientos treinta voltios, doscientas cincuenta kilocalorías"),
        ("pl", "60 W, 2 GHz", "sześćdziesiąt watów, dwa gigaherce"),
        ("ru", "5 МВт, 2 кВт·ч, 220 ГГц", "пять мегаватт, два киловатт-часа, двести двадцать гигагерц"),
    ],
    "a part of a unit": [
        ("de", "1/2 kg, 1/2 h, ½ l", "ein halbes Kilogramm, eine halbe Stunde, ein halber Liter"),
        ("es", "1/2 h, 3/4 h, 2 1/2 h", "media hora, tres cuartos de hora, dos horas y media"),
        ("fr", "1/4 h, 2 1/2 h, 3/4 l", "un quart d'heure, deux heures et demie, trois quarts de litre"),
        ("it", "1/4 h, 2 1/2 kg", "un quarto d'ora, due chilogrammi e mezzo"),
        ("pt", "1/2 h, 2 1/2 h", "meia hora, duas horas e meia"),
    ],
    "the gender of what one and two count": [
        (
            "ru",
            "2 комнаты, 2 стола, 1 комната, 1 окно, 22 книги",
            "две комнаты, два стола, одна комната, одно окно, двадцать две книги",
        ),
        ("ru", "Их было 2 или 3. Урок 2 начался.", "Их было два или три. Урок два начался."),
        ("pl", "2 osoby i 2 domy, 1 książka", "dwie osoby i dwa domy, jedna książka"),
        ("cs", "2 osoby", "dvě osoby"),
    ],
    "a ratio in cases": [
        ("pl", "2:0, 16:9", "dwa do zera, szesnaście do dziewięciu"),
        ("ru", "Счёт 3:1.", "Счёт три один."),
    ],
    "the word for year behind a date in figures": [
        ("pl", "12.05.2021 r. o ósmej", "dwunastego maja dwa tysiące dwudziestego pierwszego roku o ósmej"),
        (
            "pl",
            "Było to 12.05.2021 r. Potem poszliśmy.",
            "Było to dwunastego maja dwa tysiące dwudziestego pierwszego roku. Potem poszliśmy.",
        ),
        ("ru", "12.05.2021 г. шёл дождь", "двенадцатого мая две тысячи двадцать первого года шёл дождь"),
    ],
    "a telephone number with wide separators": [
        ("de", "Tel. 0221 / 55 66 77", "Telefon null zwei zwei eins, fünf fünf, sechs sechs, sieben sieben"),
        ("de", "Fax: 030 / 22 33 44 - 55", "Fax: null drei null, zwei zwei, drei drei, vier vier, fünf fünf"),
        ("en", "Call 020 - 7946 0958", "Call zero two zero, seven nine four six, zero nine five eight"),
    ],
    "a comma behind the full stop of an abbreviation": [
        ("de", "3 €/Stk., 80 Stück", "drei Euro pro Stück, achtzig Stück")
    ],
    "feet and inches": [
        ("en", "She is 6'2\" tall.", "She is six foot two tall."),
        ("en", "a 5′11″ man", "a five foot eleven man"),
        ("en", "He's 6' 0\".", "He's six feet."),
        ("en", "He is 5’10.", "He is five foot ten."),
        ("en", "a 12'6\" board", "a twelve foot six board"),
    ],
    "a price before its noun": [
        ("en", "He had 10 $20 bills.", "He had ten twenty-dollar bills."),
        ("en", "a $5 coffee and a £10 note", "a five-dollar coffee and a ten-pound note"),
        ("en", "a $3 million house", "a three million-dollar house"),
        ("en", "It cost $20 then.", "It cost twenty dollars then."),
        ("en", "I owe him a $20 and more", "I owe him a twenty dollars and more"),
        ("en", "$10 $20 bills", "ten dollars twenty dollars bills"),
    ],
    "a number behind a telephone number": [
        ("en", "Call 555-1234 20 times.", "Call five five five, one two three four twenty times."),
        (
            "en",
            "Call 1-800-555-1234 2 times.",
            "Call one, eight zero zero, five five five, one two three four two times.",
        ),
        ("en", "Call 555 12 34", "Call five five five, one two, three four"),
    ],
    "a rate with an article": [
        ("it", "300 l/h e 5 €/h", "trecento litri all'ora e cinque euro all'ora"),
        ("it", "5 €/settimana, 5 €/mese", "cinque euro alla settimana, cinque euro al mese"),
        ("it", "5 €/studente", "cinque euro allo studente"),
    ],
    # In French these are numbers like others: « le cent douze ».
    "an emergency number in French": [
        ("fr", "Appelez le 112.", "Appelez le cent douze."),
        ("fr", "Composez le 15, le 17 ou le 18.", "Composez le quinze, le dix-sept ou le dix-huit."),
    ],
    "a short name of a month": [
        (
            "en",
            "5 Mar. 2024, 12-Mar-2024, Jan 5, 2024",
            "the fifth of March, twenty twenty-four, the twelfth of March, twenty twenty-four, "
            "January fifth, twenty twenty-four",
        ),
        ("it", "5 gen. 2024", "cinque gennaio duemilaventiquattro"),
        ("ru", "5 янв. 2024", "пятого января две тысячи двадцать четвертого года"),
        ("pt", "5 set", "cinco set"),
    ],
    "numbers with a bar": [
        (
            "en",
            "a 1/3 share, 7/8 inch, 9/10 people",
            "a one third share, seven eighths inch, nine out of ten people",
        ),
        ("en", "120/80 and 1/250", "one hundred and twenty eighty and one over two hundred and fifty"),
        (
            "en",
            "20°C/68°F, $20/hr, 10 l/100 km",
            "twenty degrees celsius, sixty-eight degrees fahrenheit, twenty dollars per hour, "
            "ten liters per one hundred kilometers",
        ),
        ("de", "Seite 1/5", "Seite eins fünf"),
    ],
    "a list, a service number, a score": [
        ("en", "Options 1,2 and 3. Pages 1,2,3.", "Options one, two and three. Pages one, two, three."),
        (
            "en",
            "Dial 999 or 112. Freephone 1800 123 456",
            "Dial nine nine nine or one one two. Freephone one eight zero zero, one two three, four five six",
        ),
        ("en", "the 911 call about 911 people", "the nine one one call about nine hundred and eleven people"),
        ("en", "We won 3-1. 2024 was", "We won three to one. twenty twenty-four was"),
    ],
    "other scripts and languages": [
        ("ar", "٣٫٥ ٥٠٪", "ثلاثة فاصلة خمسة خمسون في المئة"),
        ("hi", "21वीं 1ली 5 ली", "इक्कीसवीं पहली पाँच लीटर"),
        ("de", "am 3. und 4. Mai", "am dritten und vierten Mai"),
        ("fr", "5€50", "cinq euros et cinquante centimes"),
        ("pl", "5 zł 50 gr", "pięć złotych pięćdziesiąt groszy"),
        ("ru", "В 1990-х гг.", "В одна тысяча девятьсот девяностых годах."),
    ],
    "a digit with a scale before what it counts": [
        ("en", "5M users", "five million users"),
        ("en", "3B people", "three billion people"),
        ("en", "7k steps and 3K likes", "seven thousand steps and three thousand likes"),
        ("en", "a 4K video, 4k TV, a 5k run", "a four K video, four k TV, a five k run"),
        ("en", "3M makes it", "three M makes it"),
        ("en", "Room 5B is 5M.", "Room five B is five M."),
        ("en", "The 5B is 5M or so.", "The five B is five M or so."),
        ("en", "4k followers", "four thousand followers"),
        ("en", "over 2M in cash, almost 1M", "over two million in cash, almost one million"),
        ("en", "about 5B in March, up to 3M.", "about five billion in March, up to three million."),
        ("en", "2M tall, over 2M of rope", "two M tall, over two M of rope"),
        (
            "en",
            "2M long, 2M wide, 20M deep, 2M high, 2M away, 2M apart",
            "two M long, two M wide, twenty M deep, two M high, two M away, two M apart",
        ),
        ("en", "a book about 3M, nearly 3M of them", "a book about three M, nearly three million of them"),
        ("en", "a height of over 2M", "a height of over two M"),
        (
            "en",
            "a USB 3B port, a 2M cable, a Pi 3B computer",
            "a USB three B port, a two M cable, a Pi three B computer",
        ),
        ("en", "a 10M cable, 10M cables", "a ten M cable, ten million cables"),
        (
            "en",
            "Room 101B, 221B Baker Street, seat 14K",
            "Room one hundred and one B, two hundred and twenty-one B Baker Street, seat fourteen K",
        ),
        ("en", "12B dollars, a 70B model", "twelve billion dollars, a seventy billion model"),
        ("de", "Zimmer 101B, 10M Nutzer", "Zimmer einhunderteins B, zehn Millionen Nutzer"),
        ("de", "knapp 3M in bar", "knapp drei Millionen in bar"),
        ("fr", "10M sur 20M d'euros", "dix millions sur vingt millions d'euros"),
        ("fr", "plus de 3M en caisse", "plus de trois millions en caisse"),
        ("es", "casi 2M en caja", "casi dos millones en caja"),
        ("pt", "cerca de 2M em caixa", "cerca de dois milhões em caixa"),
        ("it", "oltre 2M in cassa", "oltre due milioni in cassa"),
        ("nl", "ruim 2M in kas", "ruim twee miljoen in kas"),
        ("pl", "ponad 2M w kasie", "ponad dwa miliony w kasie"),
        ("ru", "более 2М в кассе", "более два миллиона в кассе"),
        ("en", "5k-10k users", "five thousand to ten thousand users"),
        ("de", "am 5.- 7. Mai", "am fünften bis siebten Mai"),
        ("de", "5M Nutzer", "fünf Millionen Nutzer"),
        ("nl", "5M gebruikers", "vijf miljoen gebruikers"),
        ("fr", "5M d'abonnés", "cinq millions d'abonnés"),
        ("es", "5M de usuarios", "cinco millones de usuarios"),
        ("it", "5M di utenti", "cinque milioni di utenti"),
        ("pt", "2M de usuários", "dois milhões de usuários"),
        ("pl", "5M użytkowników", "pięć milionów użytkowników"),
        ("cs", "5M uživatelů", "pět milionů uživatelů"),
        ("ru", "5М пользователей", "пять миллионов пользователей"),
        ("ru", "100К подписчиков", "сто тысяч подписчиков"),
        ("tr", "5M kullanıcı", "beş milyon kullanıcı"),
        ("hu", "5M felhasználó", "öt millió felhasználó"),
        ("ar", "5M مستخدم", "خمسة ملايين مستخدم"),
        ("hi", "5M लोग", "पचास लाख लोग"),
        ("zh", "5M用户", "五百万用户"),
        ("ja", "5Mユーザー", "五百万ユーザー"),
        ("ko", "5M 사용자", "오백만 사용자"),
    ],
    "a price without cents, and its scale in India": [
        ("de", "5,- €", "fünf Euro"),
        ("nl", "€ 5,-", "vijf euro"),
        ("cs", "50,- Kč", "padesát korun"),
        ("en", "₹5 lakh, Rs. 500", "five lakh rupees, five hundred rupees"),
    ],
    "a time with h, and a date with its time": [
        ("en", "at 15:30h", "at fifteen thirty"),
        ("de", "um 15:00 h", "um fünfzehn Uhr"),
        ("en", "2023-12-25T10:30:00Z.", "December twenty-fifth, twenty twenty-three ten thirty."),
    ],
    "a fraction of percents, and an exponent": [
        ("en", "12 1/2 %", "twelve and a half percent"),
        ("de", "2½ %", "zweieinhalb Prozent"),
        ("en", "1e-6", "one e-six"),
    ],
    "a day and a month without a year": [
        ("fr", "le 14/07", "le quatorze juillet"),
        ("es", "el 3/5", "el tres de mayo"),
        ("pt", "no dia 3/5", "no dia três de maio"),
        ("it", "dal 3/5 al 7/5", "dal tre maggio al sette maggio"),
        ("es", "el 24/7", "el veinticuatro de julio"),
    ],
    "a scale beside a currency": [
        ("en", "$100B", "one hundred billion dollars"),
        ("en", "$1.5M", "one point five million dollars"),
        ("en", "£3.5m", "three point five million pounds"),
        ("en", "€5k", "five thousand euros"),
        ("en", "3bn USD", "three billion US dollars"),
        ("en", "$5 million", "five million dollars"),
        ("en", "$20x", "twenty dollars x"),
        ("de", "1 Mio. €", "eine Million Euro"),
        ("de", "50 T€", "fünfzigtausend Euro"),
        ("de", "2,5 Mrd. USD", "zwei Komma fünf Milliarden US-Dollar"),
        ("nl", "€ 1,5 mln", "een komma vijf miljoen euro"),
        ("fr", "1,5 M€", "un virgule cinq million d'euros"),
        ("fr", "3 Md€", "trois milliards d'euros"),
        ("fr", "1 k€", "mille euros"),
        ("es", "1 M€", "un millón de euros"),
        ("es", "$3B", "tres mil millones de dólares"),
        ("it", "1 mln €", "un milione di euro"),
        ("it", "€ 1,5 mld", "uno virgola cinque miliardi di euro"),
        ("pt", "R$ 1,5 mi", "um vírgula cinco milhões de reais"),
        ("pt", "R$ 1 bi", "um bilhão de reais"),
        ("pl", "2 mln zł", "dwa miliony złotych"),
        ("pl", "1,5 tys. zł", "tysiąc pięćset złotych"),
        ("cs", "3 mil. Kč", "tři miliony korun"),
        ("ru", "5 млн руб.", "пять миллионов рублей."),
        ("tr", "3 mn TL", "üç milyon lira"),
        ("hu", "5 MFt", "öt millió forint"),
        ("ar", "$5M", "خمسة ملايين دولار"),
        ("hi", "₹5 cr", "पाँच करोड़ रुपये"),
        ("zh", "$5M", "五百万美元"),
        ("ja", "$3.2B", "三十二億ドル"),
        ("ko", "$5M", "오백만 달러"),
    ],
    "a scale without a currency": [
        ("en", "1.5M people", "one point five million people"),
        ("en", "100k users", "one hundred thousand users"),
        ("en", "a 4K screen of 3M", "a four K screen of three M"),
        ("de", "4,5 Mio. Menschen", "vier Komma fünf Millionen Menschen"),
        ("de", "einige Mio. Euro", "einige Millionen Euro"),
        ("it", "5 mln persone", "cinque milioni di persone"),
        ("pt", "5 mi de pessoas", "cinco milhões de pessoas"),
        ("ru", "21 тыс. человек", "двадцать одна тысяча человек"),
    ],
    "a thousand takes no preposition": [
        ("pt", "R$ 500 mil", "quinhentos mil reais"),
        ("pt", "2 mil £", "duas mil libras"),
        ("es", "3 mil €", "tres mil euros"),
        ("es", "3 mil millones €", "tres mil millones de euros"),
        ("it", "3 mila €", "tremila euro"),
        ("fr", "3 mille €", "trois mille euros"),
    ],
    "an identifier": [
        ("en", "SSN 219-09-9999", "SSN two one nine, zero nine, nine nine nine nine"),
        ("en", "90210-1234", "nine zero two one zero, one two three four"),
        ("en", "555 123 4567", "five five five, one two three, four five six seven"),
        (
            "en",
            "IBAN DE89 3704 0044 0532",
            "IBAN DE eight nine, three seven zero four, zero zero four four, zero five three two",
        ),
        ("en", "12345678901", "one two three four five six seven eight nine zero one"),
        ("en", "4-4-2", "four four two"),
        ("en", "EIN 12-3456789", "EIN one two, three four five six seven eight nine"),
        ("en", "AB1234567", "AB one two three four five six seven"),
        ("es", "12345678-Z", "uno dos tres cuatro cinco seis siete ocho -Z"),
        ("de", "0171/1234567", "null eins sieben eins, eins zwei drei vier fünf sechs sieben"),
        ("pt", "123.456.789-09", "um dois três, quatro cinco seis, sete oito nove, zero nove"),
        ("cs", "601-234-567", "šest nula jeden, dva tři čtyři, pět šest sedm"),
    ],
    "no identifier": [
        ("en", "pages 10-20", "pages ten to twenty"),
        ("en", "1998-99", "nineteen ninety-eight to ninety-nine"),
        (
            "en",
            "1,234-5,678",
            "one thousand two hundred and thirty-four to five thousand six hundred and seventy-eight",
        ),
        ("en", "10,000,000,000", "ten billion"),
        ("de", "1,5-2,5 kg", "eins Komma fünf bis zwei Komma fünf Kilogramm"),
    ],
    "from and to": [
        ("en", "9:00-17:30", "nine o'clock to seventeen thirty"),
        ("en", "9am-5pm", "nine a m to five p m"),
        ("en", "9-5pm", "nine to five p m"),
        ("en", "$5-$10", "five dollars to ten dollars"),
        ("en", "$5-10", "five to ten dollars"),
        ("en", "$5M-10M", "five million dollars to ten million dollars"),
        ("en", "5%-10%", "five percent to ten percent"),
        ("en", "1st-3rd", "first to third"),
        ("en", "5°C – 10°C", "five degrees celsius to ten degrees celsius"),
        ("en", "5 kg-10 kg", "five kilograms to ten kilograms"),
        ("en", "May 3-5, 2024", "May third to fifth, twenty twenty-four"),
        ("de", "9.30–10.30 Uhr", "neun Uhr dreißig bis zehn Uhr dreißig"),
        ("de", "vom 3.-5. Mai", "vom dritten bis fünften Mai"),
        ("fr", "9h30-12h", "neuf heures trente à douze heures"),
        ("fr", "9-12h", "neuf à douze heures"),
        ("it", "alle 9.30-10.00", "alle nove e trenta a dieci"),
        ("it", "3°-5°", "terzo a quinto"),
        ("es", "el 3-5 de mayo", "el tres a cinco de mayo"),
        ("pt", "9h-17h", "nove horas a dezessete horas"),
        ("nl", "9.30-10.00 uur", "negen uur dertig tot tien uur"),
        ("pl", "8:00-16:00", "ósma do szesnastej"),
        ("tr", "%10-15", "yüzde on ile on beş"),
        ("zh", "9:00-17:00", "九点到十七点"),
        ("ko", "5%-10%", "오 퍼센트에서 십 퍼센트"),
        ("ja", "8:00~16:00", "八時から十六時"),
        ("fr", "1er-15 août", "premier à quinze août"),
        ("pt", "1.º-3.º", "primeiro a terceiro"),
    ],
    "a number with a fraction": [
        ("en", "2 1/2 cups", "two and a half cups"),
        ("en", "2⅓ cups", "two and one third cups"),
        ("en", "½ kg and 2½ kg", "one half kilogram and two and a half kilograms"),
        ("de", "1½ Liter", "eineinhalb Liter"),
        ("es", "⅓ del total", "un tercio del total"),
        ("pl", "⅔", "dwie trzecie"),
        ("cs", "⅜", "tři osminy"),
        ("ru", "2½ часа", "два с половиной часа"),
        ("tr", "⅔ ve 2½", "üçte iki ve iki buçuk"),
        ("hu", "⅔ és 2½ óra", "kétharmad és két és fél óra"),
        ("ar", "⅔", "ثلثان"),
        ("hi", "2½ 3½ 2¾", "ढाई साढ़े तीन पौने तीन"),
        ("zh", "2½小时", "二又二分之一小时"),
        ("en", "3/5/2024 and 24/7", "March fifth, twenty twenty-four and twenty-four seven"),
    ],
    "digits and points": [
        (
            "en",
            "1 234 567 people",
            "one million, two hundred and thirty-four thousand, five hundred and sixty-seven people",
        ),
        ("en", "In 2020 100 came.", "In twenty twenty one hundred came."),
        ("en", "it is .5 or -.5", "it is zero point five or minus zero point five"),
        ("en", "The end. 5 left.", "The end. five left."),
        ("de", "0.125", "null Komma eins zwei fünf"),
        ("en", "at 8.30.", "at eight thirty."),
        ("en", "3.30 pm", "three thirty p m"),
        ("en", "It costs 8.30 at most.", "It costs eight point three zero at most."),
        ("en", "Chapter 07 of Agent 007", "Chapter seven of Agent zero zero seven"),
    ],
    "abbreviations before units, dates without a year": [
        ("de", "5 min. warten", "fünf Minuten warten"),
        ("de", "min. 5 Personen", "minimal fünf Personen"),
        ("de", "Am 24.12. um 10 Uhr", "Am vierundzwanzigsten Dezember um zehn Uhr"),
        ("de", "bis zum 3.5. da", "bis zum dritten Mai da"),
        ("de", "Kapitel 3.2. Das", "Kapitel drei Komma zwei. Das"),
    ],
    "characters that are numbers": [
        ("en", "CO₂", "CO two"),
        ("en", "10² x³ 10⁻³ mc²", "ten squared x cubed ten to the power of minus three mc squared"),
        ("en", "word¹", "word one"),
        ("en", "①②⑩ Ⅳ", "one two ten four"),
        ("de", "5 m³ und x²", "fünf Kubikmeter und x Quadrat"),
        ("ko", "①번", "일 번"),
    ],
    "a second look: short words, seasons, angles, ordinals without an article": [
        (
            "en",
            "It's 50° N; est. 1985, in H1 2022.",
            "It's fifty degrees north; established nineteen eighty-five, in H one twenty twenty-two.",
        ),
        (
            "en",
            "30 mpg, 9.81 m/s²",
            "thirty miles per gallon, nine point eight one meters per second squared",
        ),
        ("en", "C# code in F# minor, not #5", "C sharp code in F sharp minor, not number five"),
        (
            "en",
            "Call 1-800-FLOWERS on Hwy. 101.",
            "Call one eight hundred FLOWERS on highway one hundred and one.",
        ),
        ("en", "3x a day, but 2x + 1", "three times a day, but two x plus one"),
        (
            "de",
            "1. Mai, 2. Weltkrieg, 3. Klasse, 4. Kapitel.",
            "erster Mai, zweiter Weltkrieg, dritte Klasse, viertes Kapitel.",
        ),
        ("de", "Die GmbH & Co. KG, lt. Abs. 3 S. 2.", "Die GmbH & Co KG, laut Absatz drei Satz zwei."),
        (
            "de",
            "2x täglich, 5·10³, 1990/91.",
            "zwei mal täglich, fünf mal zehn hoch drei, neunzehnhundertneunzig einundneunzig.",
        ),
        (
            "pt",
            "1º/05/2023, séc. XIX, inc. II",
            "primeiro de maio de dois mil e vinte e três, século dezenove, inciso dois",
        ),
        ("pt", "págs. 3-5, n. 8, 3 1/2.", "páginas três a cinco, número oito, três e meio."),
        ("es", "El s. XIX, la Cía.", "El siglo diecinueve, la compañía."),
        (
            "fr",
            "Le XIXe s., 31 femmes et 21 garçons",
            "Le dix-neuvième siècle, trente-et-une femmes et vingt-et-un garçons",
        ),
        ("it", "Il sec. XIX, anni '90", "Il secolo diciannove, anni novanta"),
    ],
}


@pytest.mark.parametrize(("language", "written", "reading"), [row for rows in KINDS.values() for row in rows])
def test_a_kind_is_read_as_a_person_reads_it(language, written, reading):
    assert rules_of(language).read(written) == reading


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_character_that_is_a_number_has_a_reading(language):
    rules = rules_of(language)
    # All common ones, and every seventh of the others.
    every = [
        character
        for code in range(0x20000)
        if unicodedata.category(character := chr(code)) in ("No", "Nl")
        and (code < 0x2500 or code % 7 == 0)
        and (rules.spaced or not 0x3000 <= code < 0x3040)  # ideographs remain
    ]
    for character in every:
        reading = rules.read(f"a {character} b")
        assert reading.split() != ["a", "b"], character
        assert not any(
            unicodedata.category(letter) in ("No", "Nl") for letter in reading.replace("〇", "")
        ), character


def test_numbers_in_digits_for_a_reader_that_knows_no_others():
    assert numerals.in_digits("H₂O ⅔ ⑫ x⁻² ٣").split() == ["H", "2", "O", "2/3", "12", "x", "-2", "3"]
