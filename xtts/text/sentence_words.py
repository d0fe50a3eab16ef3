"""The words by which `xtts.text.sentences` knows the end of a sentence, by language.

`*` is for all languages. Abbreviations that normalisation reads are in the tables of
`xtts.text.normalization`, and count as well. Each of ours is in one of three tables. Everything is
compared in lower case.
"""

# Abbreviations that no sentence ends with: titles, and words before an example or a name.
NEVER_LAST = {
    "*": "dr. prof. mr. mrs. ms. vs.",
    "en": """mr. mrs. ms. dr. messrs. prof. rev. gen. col. capt. lt. sgt. cpl. maj. hon. gov.
        sen. rep. pres. adm. cmdr. fr. mt. e.g. i.e. cf. viz. approx.""",
    "de": """hr. fr. dr. prof. dipl. ing. bzw. ca. vgl. z.b. d.h. u.a. i.d.r. z.t. m.e. o.g. sog.
        inkl. exkl. evtl. ggf. st. nr. abs. abb. art. ziff. kap. bd. tel.""",
    "fr": "m. mme. mlle. mm. mmes. me. dr. pr. p.ex. c.-à-d. env. cf. st. ste. tél.",
    "es": """sr. sra. srta. sres. dr. dra. d. dña. ud. uds. vd. p.ej. ej. núm. pág. págs. avda.
        av. tel. art. gral. lic. ing.""",
    "pt": """sr. sra. srta. dr. dra. d. prof. profa. eng. exmo. p.ex. ex. pág. págs. av. r. tel.
        art. cap. núm.""",
    "it": """sig. sig.ra sig.na dott. dott.ssa dr. prof. prof.ssa ing. avv. arch. geom. on. p.es.
        ad.es. es. pag. tel. art. cap. sigg. s.""",
    "nl": """dhr. mevr. mw. dr. drs. ir. mr. ing. prof. bijv. bv. d.w.z. o.a. m.b.t. t.a.v.
        i.p.v. ca. nr. art. blz. st. tel.""",
    "pl": """np. m.in. tzn. tj. tzw. ok. inż. prof. ul. al. pl. św. nr. str. tel. wg. ks. gen.
        płk. kpt. por. hab. woj. art. ust. rozdz.""",
    "cs": """např. tj. tzv. tzn. č. str. ul. nám. prof. mj. popř. př. tel. sv. ing. mgr. mudr.
        judr. bc. phdr. dr. čl. odst. pí. p.""",
    "ru": """т.е. т.к. напр. ул. просп. пр. пл. пер. д. кв. стр. проф. акад. им. см. тел. т.н.
        г-н. г-жа. св. гл. рис. табл. ст. доц. корп.""",
    "tr": "prof. doç. dr. av. sn. örn. bkz. cad. sok. mah. no. tel. yrd.",
    "hu": "pl. kb. ún. ill. prof. dr. ifj. id. özv. tel. sz. old. vö. ld.",
}
# Abbreviations that often end a sentence: a capital after them begins a new one.
OFTEN_LAST = {
    "en": """etc. a.m. p.m. jr. sr. inc. ltd. co. corp. llc. ph.d. m.d. b.c. a.d. min. sec. hr.
        hrs. mins. secs. wk. wks. mo. mos. yr. yrs. gal. in. ft. lb. lbs. oz. mi. yd. bn.""",
    "de": "usw. etc. jh. chr. mio. mrd. min. std. sek. tsd. u.ä. o.ä. gmbh. str.",
    "fr": "etc. j.-c. apr.",
    "es": "etc. h. hs. hrs. uu. c. a.c. d.c. s.a. s.l. aprox.",
    "pt": "etc. h. a.c. d.c. ltda. s.a. aprox.",
    "it": "ecc. a.c. d.c. s.p.a. s.r.l. ca.",
    "nl": "enz. etc. a.u.b. v.chr. n.chr. jl. e.d. e.a.",
    "pl": "itd. itp. n.e. p.n.e. r. w. godz. min. sek. tys. zł. etc. gr.",
    "cs": "atd. apod. n.l. hod. min. kč. mil. mld. tis. aj. s.r.o. a.s. etc.",
    "ru": "п. др. г. гг. в. вв. э. н.э. руб. коп. долл. тыс. млн. млрд. мин. сек. час. т.д. т.п.",
    "tr": "vb. yy. m.ö. m.s. a.ş.",
    "hu": "stb. kft. zrt. rt. bt. u. ft.",
}
# Abbreviations that a sentence may end with, if the next word begins one. `#`: a number follows.
SOMETIMES_LAST = {
    "en": """st. ave. blvd. rd. no.# nos.# p.# pp.# vol.# vols.# fig.# figs.# ch.# art.# ed.
        eds. jan. feb. mar. apr. jun. jul. aug. sept. sep. oct. nov. dec. mon. tue. tues. wed.
        thu. thur. thurs. fri. sat. sun. dept. est. esp. incl. max. misc. op.# par.# al. bros.
        univ. assn. ext.# tel. u.s. u.k. u.n. d.c.""",
    "de": """jan. jän. feb. febr. mär. mrz. apr. jun. jul. aug. sep. sept. okt. nov. dez. mo.
        di. mi. do. sa. so. s.# max. geb. gest. verh. engl. franz. lat. allg. bspw. zzgl. abzgl.
        jr. sen. hrsg. aufl. anm. bes. ders. ebd. f.# ff. usf. u.v.m. v.a. i.a. i.v. a.d. g.""",
    "fr": """janv. jan. févr. fév. avr. juil. juill. sept. oct. nov. déc. p.# pp.# vol.# fig.#
        chap.# art.# bd. boul. éd. trad. cie. ex. max. min. hab.""",
    "es": """ene. feb. febr. mar. abr. may. jun. jul. ago. sep. sept. oct. nov. dic. p.# pp.# vol.#
        fig.# cap.# ed. izq. dcha. dto. dpto. máx. mín. ee.""",
    "pt": """jan. fev. mar. abr. mai. jun. jul. ago. set. out. nov. dez. p.# pp.# vol.# fig.# ed.
        máx. mín. cia. sto. sta.""",
    "it": """gen. genn. feb. febbr. mar. apr. mag. magg. giu. lug. lugl. ago. set. sett. ott.
        nov. dic. p.# pp.# vol.# fig.# n.# ed. cfr. c.so v. p.zza max. min.""",
    "nl": """jan. feb. febr. mrt. apr. jun. jul. aug. sep. sept. okt. nov. dec. p.# fig.# hfst.#
        max.
        min. jr. sr. resp. incl. excl. vgl. str.""",
    "pl": """sty. stycz. lut. kwi. kwiec. cze. czerw. lip. sie. sierp. wrz. wrześ. paź. paźdz.
        lis. listop. gru. grudz. s.# t.# rys.# tab.# ww. pt. os. im. zob. m.""",
    "cs": "obr.# tab.# kap.# s.# stol. tř. vl. ev. resp. příp. r. nar. zejm. max.",
    "ru": "янв. фев. февр. мар. апр. июн. июл. авг. сен. сент. окт. нояб. дек. с.# т.# обл. р-н.",
    "tr": "s.# sf.# cilt.# st. alm. ing. fr.",
    "hu": "jan. febr. márc. ápr. jún. júl. aug. szept. okt. nov. dec. út. em. fej. i. e.",
    "hi": "डॉ. श्री. प्रो. पृ.# सं.# रु. कि.मी. ई.पू.",
    "ar": "د. أ. م. ص.#",
}
# Words that begin a sentence, and rarely a name.
STARTERS = {
    "en": """the a an this that these those it he she we they i you there here then when where
        why how what who which after before later soon now next finally however but and or so yet
        still if as at in on by for from with without while since until once although because
        despite every each some many most all no not nobody nothing everyone his her its our
        their my your let please also meanwhile afterwards today tomorrow yesterday perhaps maybe
        do does did is are was were can could will would should did it's he's she's that's
        there's we'll i'll i'm don't let's""",
    "de": """der die das den dem des ein eine einen einem einer es er sie wir ich ihr du man dies
        diese dieser dieses jener da dann danach davor dort hier heute morgen gestern jetzt nun
        später zuerst schließlich aber und oder doch denn also wenn als wie wo was wer warum nach
        vor bei mit ohne für von zu zum zur im in am an auf aus über unter durch gegen um seit
        bis während weil obwohl trotzdem jedoch deshalb daher dabei damit dazu nur noch schon
        auch alle viele einige manche jeder jede jedes kein keine niemand nichts mein meine sein
        seine ihre unser unsere bitte leider vielleicht sonst außerdem anschließend dadurch so""",
    "fr": """le la les l'on un une des il elle ils elles nous vous je tu on ce cet cette ces
        c'est c'était puis ensuite après avant alors mais et ou donc or car si quand comme où que
        qui quoi pourquoi comment dans sur sous avec sans pour par de du depuis pendant en à au
        aux chez son sa ses notre nos leur leurs mon ma mes tous toutes chaque aucun rien
        personne aujourd'hui demain hier enfin cependant pourtant voici voilà il y""",
    "es": """el la los las un una unos unas él ella ellos ellas nosotros yo tú usted ustedes esto
        este esta estos estas eso ese esa luego después antes entonces pero y o si cuando como
        donde que quien por para con sin en de del desde hasta a al sobre entre su sus mi mis tu
        tus nuestro nuestra todo todos todas cada nada nadie hoy mañana ayer ahora aquí allí
        también además no ya hay es era fue son""",
    "pt": """o a os as um uma uns umas ele ela eles elas nós eu tu você vocês isto este esta esse
        essa isso aquilo depois antes então mas e ou se quando como onde que quem por para com
        sem em no na nos nas de do da dos das desde até ao à sobre entre seu sua seus suas meu
        minha nosso nossa todo todos todas cada nada ninguém hoje amanhã ontem agora aqui ali
        também além não já há é era foi são""",
    "it": """il lo la i gli le un uno una egli lui lei loro noi io tu voi questo questa questi
        queste quello quella poi dopo prima allora ma e o se quando come dove che chi perché per
        con senza in nel nella di del della dei da dal dalla a al alla su sul sulla tra fra suo
        sua suoi mio mia nostro nostra tutto tutti tutte ogni niente nessuno oggi domani ieri ora
        qui lì anche inoltre non già c'è è era fu sono""",
    "nl": """de het een hij zij ze wij we ik jij je u jullie dit dat deze die daarna daarvoor dan
        toen nu later eerst maar en of want dus als wanneer hoe waar wat wie waarom in op aan bij
        met zonder voor van naar uit over onder door tegen sinds tot na zijn haar ons onze hun
        mijn alle elke iedereen niemand niets vandaag morgen gisteren hier daar ook er""",
    "pl": """to ten ta te ci on ona ono oni one my wy ja ty potem później następnie wtedy teraz
        tam tu tutaj ale i a lub albo więc bo jeśli gdy kiedy jak gdzie co kto dlaczego w we na z
        ze do od po przed przy dla bez o u nad pod przez jego jej ich mój moja nasz nasza wszyscy
        wszystko każdy nikt nic dziś dzisiaj jutro wczoraj jednak nie już jest był była było są""",
    "cs": """to ten ta ti on ona ono oni my vy já ty pak potom poté teď tam tady zde ale a nebo
        tedy protože jestli když jak kde co kdo proč v ve na z ze do od po před při pro bez o u
        nad pod přes jeho její jejich můj moje náš naše všichni všechno každý nikdo nic dnes
        zítra včera však ne už je byl byla bylo jsou""",
    "ru": """это этот эта эти он она оно они мы вы я ты потом затем тогда теперь там тут здесь но
        и а или так если когда как где что кто почему в во на с со до от по перед при для без о
        об у над под через его её ее их мой моя наш наша все всё каждый никто ничего сегодня
        завтра вчера однако не уже есть был была было были после из за к ко""",
    "tr": """bu şu o bunlar onlar biz siz ben sen bir sonra önce ardından şimdi burada orada ama
        ve veya çünkü eğer ne nasıl nerede kim neden her hiç bugün yarın dün ancak fakat""",
    "hu": """a az ez ezek azok ő ők mi ti én te egy aztán azután majd most itt ott de és vagy
        mert ha amikor mint hol ki mit miért minden senki semmi ma holnap tegnap azonban nem már""",
}
