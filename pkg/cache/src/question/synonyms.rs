//! Spellings that may stand for each other in any question, and words by which English is told.
//!
//! There are no synonyms: "film" is "movie" in a cinema and not in a kitchen, "high" is "tall" of a wall and not of a rate.

/// American and British spellings. Pairs of which one is a word or a name of its own ("programme", "Labour", "grey") are
/// left out.
pub(super) const SPELLINGS: &[(&str, &str)] = &[
    ("color", "colour"),
    ("colors", "colours"),
    ("favorite", "favourite"),
    ("flavor", "flavour"),
    ("behavior", "behaviour"),
    ("neighbor", "neighbour"),
    ("neighbors", "neighbours"),
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
    ("aluminum", "aluminium"),
    ("jewelry", "jewellery"),
    ("traveler", "traveller"),
    ("canceled", "cancelled"),
    ("airplane", "aeroplane"),
];

/// Verbs of how-to questions.
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
