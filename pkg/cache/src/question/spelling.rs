//! Spellings of one word: American and British, and common misspellings.
//!
//! Pairs of which one is a word or a name of its own ("programme", "Labour", "grey", "storey", "tyre", "practise") are left
//! out. Endings are only rewritten where no two English words differ by them.

use super::token::Token;
use std::borrow::Cow;

/// American and British spellings that no ending tells.
pub(super) const SPELLINGS: &[(&str, &str)] = &[
    ("color", "colour"),
    ("colors", "colours"),
    ("odor", "odour"),
    ("organize", "organise"),
    ("optimize", "optimise"),
    ("summarize", "summarise"),
    ("minimize", "minimise"),
    ("maximize", "maximise"),
    ("analyze", "analyse"),
    ("recognize", "recognise"),
    ("initialize", "initialise"),
    ("serialize", "serialise"),
    ("deserialize", "deserialise"),
    ("normalize", "normalise"),
    ("aluminum", "aluminium"),
    ("jewelry", "jewellery"),
    ("airplane", "aeroplane"),
    ("airplanes", "aeroplanes"),
    ("defense", "defence"),
    ("offense", "offence"),
    ("pretense", "pretence"),
    ("license", "licence"),
    ("licenses", "licences"),
    ("fiber", "fibre"),
    ("fibers", "fibres"),
    ("somber", "sombre"),
    ("meager", "meagre"),
    ("plow", "plough"),
    ("pajamas", "pyjamas"),
    ("skeptical", "sceptical"),
    ("skeptic", "sceptic"),
    ("yogurt", "yoghurt"),
    ("donut", "doughnut"),
    ("donuts", "doughnuts"),
    ("aging", "ageing"),
    ("judgment", "judgement"),
    ("acknowledgment", "acknowledgement"),
    ("enroll", "enrol"),
    ("fulfill", "fulfil"),
    ("installment", "instalment"),
    ("installments", "instalments"),
    ("skillful", "skilful"),
    ("cozy", "cosy"),
    ("artifact", "artefact"),
    ("artifacts", "artefacts"),
    ("sulfur", "sulphur"),
    ("sulfate", "sulphate"),
    ("sulfuric", "sulphuric"),
    ("maneuver", "manoeuvre"),
    ("fetus", "foetus"),
    ("diarrhea", "diarrhoea"),
    ("estrogen", "oestrogen"),
    ("edema", "oedema"),
    ("esophagus", "oesophagus"),
    ("maths", "math"),
    ("learned", "learnt"),
    ("dreamed", "dreamt"),
    ("burned", "burnt"),
    ("ok", "okay, alright"),
    ("install", "instal"),
    ("distill", "distil"),
];

/// Common misspellings, none of which is another word.
pub(super) const MISSPELLINGS: &[(&str, &str)] = &[
    ("the", "teh"),
    ("because", "becuase, becouse, becasue, beacuse"),
    ("which", "wich, whcih"),
    ("what", "waht, wht"),
    ("how", "hwo"),
    ("until", "untill"),
    ("receive", "recieve, receve, recive"),
    ("received", "recieved"),
    ("separate", "seperate, seprate"),
    ("definition", "definiton, defintion, definision"),
    ("definitely", "definately, definatly, definitly"),
    ("access", "acces, accses"),
    ("address", "adress, addres, adres"),
    ("government", "goverment, governement, govenment"),
    ("environment", "enviroment, enviornment, environement"),
    ("restaurant", "restaraunt, restaurent, resturant, restuarant"),
    ("restaurants", "restaraunts, restaurents, resturants"),
    ("appointment", "appointement, apointment, appoinment"),
    ("vegetarian", "vegeterian, vegatarian"),
    ("accommodation", "accomodation, acommodation, accomadation"),
    ("accommodate", "accomodate"),
    ("achieve", "acheive"),
    ("across", "accross"),
    ("argument", "arguement"),
    ("beginning", "begining"),
    ("believe", "beleive, belive"),
    ("business", "buisness, bussiness, busines"),
    ("cancellation", "cancelation, cancelletion"),
    ("category", "catagory"),
    ("cemetery", "cemetary"),
    ("certificate", "certficate, certifcate, certificat"),
    ("colleague", "collegue, coleague"),
    ("committee", "commitee, comittee"),
    ("completely", "completly"),
    ("conscious", "concious"),
    ("convenient", "convinient, conveniant"),
    ("currency", "curency, currancy"),
    ("delivery", "delivary, delievery, devlivery"),
    ("describe", "discribe"),
    ("deposit", "deposite"),
    ("different", "diffrent, diferent"),
    ("difference", "diffrence, diference, differnce"),
    ("disappear", "dissapear, disapear"),
    ("disappoint", "dissapoint"),
    ("document", "documant, docment"),
    ("electricity", "electricty, elecricity"),
    ("embarrass", "embarass"),
    ("equipment", "equiptment"),
    ("exaggerate", "exagerate"),
    ("existence", "existance"),
    ("experience", "experiance, expirience"),
    ("familiar", "familar"),
    ("february", "febuary"),
    ("foreign", "foriegn, foregin"),
    ("forty", "fourty"),
    ("friend", "freind"),
    ("friends", "freinds"),
    ("guarantee", "garantee, gaurantee, guarentee"),
    ("guidance", "guidence"),
    ("happened", "happend"),
    ("harass", "harrass"),
    ("height", "heigth, hieght"),
    ("hospital", "hosptial, hopsital"),
    ("immediately", "immediatly, imediately"),
    ("independent", "independant"),
    ("information", "infomation, informtion, infromation"),
    ("insurance", "insurence, insurrance, insurace"),
    ("interest", "intrest"),
    ("interrupt", "interupt"),
    ("jewelry", "jewelery"),
    ("knowledge", "knowlege"),
    ("language", "langauge, languge"),
    ("length", "lenght"),
    ("library", "libary, liberry"),
    ("license", "lisence, liscense"),
    ("maintenance", "maintainance, maintenence"),
    ("maximum", "maximun, maxium"),
    ("medicine", "medecine"),
    ("membership", "memebership, membershp"),
    ("millennium", "millenium"),
    ("minimum", "minumum, minimun"),
    ("necessary", "neccessary, necesary, neccesary"),
    ("neighbor", "neigbor"),
    ("noticeable", "noticable"),
    ("occasion", "ocasion, occassion"),
    ("occurred", "occured"),
    ("occurrence", "occurence"),
    ("official", "offical"),
    ("opening", "openning"),
    ("opportunity", "oportunity"),
    ("original", "orignal"),
    ("parliament", "parliment"),
    ("password", "pasword, passwrod, passord"),
    ("payment", "payement, paymnet"),
    ("people", "poeple, peopel"),
    ("permanent", "permanant"),
    ("pharaoh", "pharoah"),
    ("piece", "peice"),
    ("population", "populaton, popluation"),
    ("possession", "posession"),
    ("possible", "possable, posible"),
    ("prescription", "perscription, presciption, prescripton"),
    ("privilege", "priviledge"),
    ("probably", "probaly"),
    ("professor", "proffesor"),
    ("pronunciation", "pronounciation"),
    ("publicly", "publically"),
    ("really", "realy"),
    ("receipt", "reciept, receit"),
    ("recommend", "recomend, reccomend"),
    ("refrigerator", "refridgerator"),
    ("registration", "registraton, registation"),
    ("relevant", "relevent"),
    ("religious", "religous"),
    ("remember", "rember, remeber"),
    ("repetition", "repitition"),
    ("reservation", "reservaton, resevation"),
    ("responsible", "responsable"),
    ("schedule", "schedual, shedule"),
    ("secretary", "secratary"),
    ("should", "shoud, shuold"),
    ("similar", "similiar"),
    ("sincerely", "sincerly"),
    ("special", "speical"),
    ("station", "staton, statoin"),
    ("statement", "statment"),
    ("subscription", "subscribtion, subsciption, subscripton"),
    ("successful", "succesful, successfull"),
    ("supersede", "supercede"),
    ("surprise", "suprise"),
    ("symptom", "symtom, sympton"),
    ("symptoms", "symtoms, symptons, symptomes"),
    ("temperature", "temperture, temprature, tempature"),
    ("thermometer", "thermomter"),
    ("tomorrow", "tommorow, tomorow, tommorrow"),
    ("tongue", "tounge"),
    ("transfer", "tranfer, trasnfer"),
    ("treatment", "treatement, treatmnet"),
    ("truly", "truely"),
    ("university", "univeristy, universty"),
    ("unfortunately", "unfortunatly"),
    ("useful", "usefull"),
    ("vaccine", "vacine, vaccin"),
    ("vacuum", "vaccum, vacum"),
    ("vegetable", "vegtable"),
    ("vegetables", "vegtables"),
    ("vehicle", "vehical, vehicel"),
    ("website", "webiste, wesbite"),
    ("wednesday", "wensday, wendesday"),
    ("weird", "wierd"),
    ("where", "wheer, whre"),
    ("writing", "writting"),
];

/// Stems whose British forms double the l.
const DOUBLES_L: &str = "travel cancel model label fuel counsel level signal tunnel channel marvel dial equal initial total rival \
    quarrel shovel swivel panel pedal medal jewel";

/// Gives known words their usual spelling, so that phrases are found.
pub(super) fn corrected(tokens: &mut [Token<'_>]) {
    for token in tokens.iter_mut().filter(|token| token.class.is_none() && token.cased.is_none()) {
        if let Some(usual) = token.slot.and_then(|slot| slot.spelled) {
            let usual = Token::known(usual);
            (token.text, token.slot) = (usual.text, usual.slot);
        }
    }
}

/// The spelling as which a word that the lexicon does not know is compared.
pub(super) fn folded(word: &str) -> Cow<'_, str> {
    unstressed(american(word))
}

/// -ance and -ancy as -ence and -ency: the vowel is not heard, so each is written for the other, and no two words differ by
/// it. They do by -ant and -ent ("confidant"), and a philosopher made "differance".
fn unstressed(word: Cow<'_, str>) -> Cow<'_, str> {
    let pair = [("ance", "ence"), ("ancy", "ency"), ("ances", "ences"), ("ancies", "encies")].into_iter().find_map(
        |(ending, usual)| Some((word.strip_suffix(ending).filter(|stem| stem.len() > 3 && *stem != "differ")?, usual)),
    );
    match pair {
        Some((stem, usual)) => Cow::Owned(format!("{stem}{usual}")),
        None => word,
    }
}

/// The American spelling, where an ending or a group of letters tells.
fn american(word: &str) -> Cow<'_, str> {
    if word.len() < 6 || !word.is_ascii() {
        return Cow::Borrowed(word);
    }
    ending(word).or_else(|| doubled(word)).or_else(|| digraph(word)).map_or(Cow::Borrowed(word), Cow::Owned)
}

/// -ise, -yse, -our, -tre and what can stand behind them.
fn ending(word: &str) -> Option<String> {
    const PAIRS: [(&str, &str, usize); 21] = [
        // Least letters before the ending, so that "prise" and "prize", "four" and "for" stay apart.
        ("isation", "ization", 3),
        ("isations", "izations", 3),
        ("ise", "ize", 4),
        ("ised", "ized", 4),
        ("ises", "izes", 4),
        ("iser", "izer", 4),
        ("isers", "izers", 4),
        ("ising", "izing", 4),
        ("yse", "yze", 3),
        ("ysed", "yzed", 3),
        ("yses", "yzes", 4),
        ("ysing", "yzing", 3),
        ("our", "or", 3),
        ("ours", "ors", 3),
        ("oured", "ored", 3),
        ("ouring", "oring", 3),
        ("ourite", "orite", 3),
        ("ourites", "orites", 3),
        ("ourhood", "orhood", 3),
        ("tre", "ter", 3),
        ("tres", "ters", 3),
    ];
    // A party; two analyses; hardships, and fits of shivering; a town.
    const PARTED: [&str; 7] = ["labour", "labours", "analyses", "paralyses", "rigour", "rigours", "chartres"];
    if !word.ends_with(['e', 'd', 's', 'r', 'g', 'n']) && !word.ends_with("hood") || PARTED.contains(&word) {
        return None;
    }
    PAIRS.iter().find_map(|&(british, american, least)| {
        let stem = word.strip_suffix(british)?;
        (stem.len() >= least).then(|| format!("{stem}{american}"))
    })
}

/// "travelling" → "traveling".
fn doubled(word: &str) -> Option<String> {
    let at = word.find("ll")?;
    let (stem, ending) = (&word[..=at], &word[at + 2..]);
    let ends = matches!(ending, "ed" | "ing" | "er" | "ers" | "or" | "ors" | "ous");
    (ends && DOUBLES_L.split_whitespace().any(|known| known == stem)).then(|| format!("{stem}{ending}"))
}

/// "anaemia" → "anemia".
fn digraph(word: &str) -> Option<String> {
    const GROUPS: [(&str, &str); 7] = [
        ("haem", "hem"),
        ("aemi", "emi"),
        ("aesth", "esth"),
        ("gynaec", "gynec"),
        ("archaeo", "archeo"),
        ("foet", "fet"),
        ("oeso", "eso"),
    ];
    if !word.contains("ae") && !word.contains("oe") {
        return None;
    }
    GROUPS.iter().find(|(british, _)| word.contains(british)).map(|(british, american)| word.replace(british, american))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn british_endings_become_american_ones() {
        let rows = [
            ("globalisation", "globalization"),
            ("visualise", "visualize"),
            ("theatre", "theater"),
            ("neighbouring", "neighboring"),
            ("modelling", "modeling"),
            ("paralysed", "paralyzed"),
            ("anaemia", "anemia"),
        ];
        for (british, wanted) in rows {
            assert_eq!(american(british), wanted);
        }
    }

    #[test]
    fn what_is_often_misspelt_is_written_in_one_way() {
        for (one, other) in [("repentance", "repentence"), ("pregnancies", "pregnencies")] {
            assert_eq!(folded(one), folded(other));
        }
        for (one, other) in
            [("dessert", "desert"), ("princess", "princes"), ("strrchr", "strchr"), ("confidant", "confident")]
        {
            assert_ne!(folded(one), folded(other));
        }
    }

    #[test]
    fn words_that_only_look_british_stay() {
        for word in ["labour", "journey", "mourning", "fourth", "hours", "prise", "analyses", "selling", "tournament"] {
            assert_eq!(american(word), word);
        }
    }
}
