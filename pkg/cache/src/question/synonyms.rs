//! Words that may stand for each other in any question, irregular forms, and spellings.
//!
//! A group is here only if swapping its words keeps the answer in every ordinary use: "car" for "automobile", not "fix"
//! for "solve". No group holds two words of an antonym pair (a test checks).

/// Groups of synonyms, the first word being the one compared.
pub(super) const SYNONYMS: &[(&str, &str)] = &[
    ("start", "commence"),
    ("buy", "purchase"),
    ("large", "big"),
    ("fast", "quick, rapid, speedy"),
    ("difficult", "tough"),
    ("dangerous", "hazardous"),
    ("expensive", "costly"),
    ("rich", "wealthy"),
    ("quiet", "silent"),
    ("max", "maximum, maximal"),
    ("min", "minimum, minimal"),
    ("child", "kid"),
    ("delete", "erase"),
    ("whole", "entire"),
    ("repair", "fix"),
    ("obtain", "acquire"),
    ("require", "need"),
    ("help", "assist"),
    ("choose", "select"),
    ("happen", "occur"),
    ("advantage", "upside"),
    ("disadvantage", "downside"),
    ("author", "writer"),
    ("famous", "renowned"),
    ("sick", "ill"),
    ("movie", "film"),
    ("car", "automobile"),
    ("phone", "telephone"),
    ("doctor", "physician"),
    ("lawyer", "attorney"),
    ("photo", "photograph"),
    ("fridge", "refrigerator"),
    ("bike", "bicycle"),
    ("airplane", "aeroplane"),
    ("couch", "sofa"),
    ("garbage", "trash, rubbish"),
    ("folder", "directory"),
    ("usa", "US"),
    ("application", "app"),
    ("information", "info"),
    ("repository", "repo"),
    ("configuration", "config"),
    ("database", "db"),
    ("laboratory", "lab"),
    ("mathematics", "math, maths"),
    ("advertisement", "ad, advert"),
    ("television", "tv"),
    ("gasoline", "petrol"),
    ("eggplant", "aubergine"),
    ("zucchini", "courgette"),
];

/// Plurals that are no regular form of their singular.
pub(super) const IRREGULAR_PLURALS: &[(&str, &str)] = &[
    ("child", "children"),
    ("man", "men"),
    ("woman", "women"),
    ("tooth", "teeth"),
    ("mouse", "mice"),
    ("goose", "geese"),
    ("leaf", "leaves"),
    ("knife", "knives"),
    ("half", "halves"),
    ("wife", "wives"),
    ("analysis", "analyses"),
    ("crisis", "crises"),
    ("phenomenon", "phenomena"),
    ("criterion", "criteria"),
    ("index", "indices, indexes"),
    ("matrix", "matrices"),
    ("potato", "potatoes"),
    ("tomato", "tomatoes"),
    ("hero", "heroes"),
    ("have", "has"),
];

/// British and American spellings.
pub(super) const SPELLINGS: &[(&str, &str)] = &[
    ("color", "colour"),
    ("colors", "colours"),
    ("favorite", "favourite"),
    ("flavor", "flavour"),
    ("behavior", "behaviour"),
    ("neighbor", "neighbour"),
    ("labor", "labour"),
    ("center", "centre"),
    ("theater", "theatre"),
    ("defense", "defence"),
    ("license", "licence"),
    ("organize", "organise"),
    ("optimize", "optimise"),
    ("summarize", "summarise"),
    ("minimize", "minimise"),
    ("maximize", "maximise"),
    ("analyze", "analyse"),
    ("recognize", "recognise"),
    ("initialize", "initialise"),
    ("serialize", "serialise"),
    ("normalize", "normalise"),
    ("gray", "grey"),
    ("aluminum", "aluminium"),
    ("jewelry", "jewellery"),
    ("program", "programme"),
    ("catalog", "catalogue"),
    ("dialog", "dialogue"),
    ("traveler", "traveller"),
    ("canceled", "cancelled"),
    ("donut", "doughnut"),
];

/// Verbs of how-to questions, for "steps for installing" and "how to install".
pub(super) const VERBS: &str = "use make set get find install write create build run change configure convert \
    calculate measure cook boil bake clean wash fix repair remove delete add update reset learn teach grow plant cut \
    paint sort merge join split open close connect deploy test debug import export print copy move rename format parse \
    read save store download upload encrypt decrypt start stop restart enable disable apply choose plan prepare improve \
    reduce increase prevent treat solve compare define explain describe draw design develop handle manage check verify name write translate \
    suggest recommend generate state";

/// Adjectives that form -er and -est.
pub(super) const ADJECTIVES: &str = "large big small tiny fast quick slow tall short long high low deep wide narrow thick \
    thin heavy light strong weak hard soft easy old young new early late hot cold warm cool wet dry safe cheap rich poor \
    full clean dirty dark bright loud quiet near close rare common simple smart healthy happy busy pretty ugly sweet sour \
    spicy salty fresh great nice kind brave calm sharp smooth rough steep tight loose clear";
