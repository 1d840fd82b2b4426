//! Words that may stand for each other in any question, and words by which English is told.
//!
//! A pair is here only if no two natural questions differ by it and want two answers. "film" is not "movie" (a film of oil),
//! "high" not "tall" (a rate), "trash" not "garbage" (collection), "attorney" not "lawyer" (a power of attorney). That a
//! replacement reads oddly in some question does no harm: nobody asks it.

/// Words of one meaning, as `(word, other words)`.
pub(super) const SYNONYMS: &[(&str, &str)] = &[
    ("bought", "purchased"),
    ("starts", "begins"),
    ("started", "began, begun"),
    ("gets", "obtains"),
    ("getting", "obtaining"),
    ("fridge", "refrigerator"),
    ("fridges", "refrigerators"),
    ("tv", "television, telly"),
    ("photo", "photograph"),
    ("photos", "photographs"),
    ("car", "automobile"),
    ("cars", "automobiles"),
    ("eggplant", "aubergine"),
    ("eggplants", "aubergines"),
    ("zucchini", "courgette, courgettes"),
    ("diaper", "nappy"),
    ("diapers", "nappies"),
    ("approximately", "roughly, approx"),
    ("allowed", "permitted"),
    ("until", "till"),
    ("towards", "toward"),
    ("among", "amongst"),
    ("while", "whilst"),
    ("versus", "vs"),
    ("annual", "yearly"),
    ("maybe", "perhaps"),
    ("quote", "quotation"),
    ("quotes", "quotations"),
    ("someone", "somebody"),
    ("anyone", "anybody"),
    ("everyone", "everybody"),
    ("often", "frequently"),
    ("immediately", "straightaway"),
    ("javascript", "js"),
];

/// Verbs of one meaning where they are verbs: a purchase order is no buy order, and "begin" is a word of some languages.
pub(super) const OF_VERBS: &[(&str, &str)] = &[("buy", "purchase"), ("start", "begin"), ("get", "obtain")];

/// Words of one meaning before some nouns only, as `(word, other word, nouns)`: the biggest band has the most fame, the
/// quickest car starts best, and an old telephone needs no battery.
pub(super) const BEFORE: &[(&str, &str, &str)] = &[
    (
        "largest",
        "biggest",
        "city cities country countries island islands lake lakes ocean desert deserts continent planet planets moon animal \
         animals mammal whale shark bird fish snake spider stadium stadiums building buildings airport airports forest",
    ),
    ("fastest", "quickest", "way ways route routes"),
    ("phone", "telephone", "number numbers call calls line lines"),
];

/// Words that mean one thing in most questions. The gates take one for the other, so a stored question that is similar enough
/// as a whole may serve; the same-words tier, which has no similarity to go by, keeps them apart. Not here are words that make a
/// natural question of another sense in the same place: lift and elevator of a plane, pick and choose a lock, bike and bicycle.
pub(super) const NEAR: &[(&str, &str)] = &[
    ("shop", "store"),
    ("shops", "stores"),
    ("mistake", "error"),
    ("lawyer", "attorney"),
    ("doctor", "physician"),
    ("vacation", "holiday"),
    ("trash", "rubbish, garbage"),
    ("sofa", "couch"),
    ("taxi", "cab"),
    ("company", "firm"),
    ("gift", "present"),
    ("illness", "sickness"),
    ("goal", "aim"),
    ("choose", "select"),
    ("happen", "occur"),
    ("respond", "reply"),
    ("dangerous", "hazardous"),
    ("ill", "sick"),
    ("mute", "silence"),
    ("fee", "charge"),
    ("fees", "charges"),
];

/// Verbs of how-to questions.
pub(super) const VERBS: &str = "use make set get find install write create build run change configure convert \
    calculate measure cook boil bake clean wash fix repair remove delete add update reset learn teach grow plant cut \
    paint sort merge join split open close connect deploy test debug import export print copy move rename format parse \
    read save store download upload encrypt decrypt start stop restart enable disable apply choose plan prepare improve \
    reduce increase prevent treat solve compare define explain describe draw design develop handle manage check verify name \
    translate suggest recommend generate state access activate adjust announce answer appeal arrange ask assemble attach \
    authenticate avoid backup block book borrow brew bring brush build buy call cancel carve cast celebrate chop claim \
    collect combine complain compile compress compute contact control correct count cover cure customize cycle deal decide \
    decorate decline defrost descale detach detect determine dig disconnect discover display dispose do donate drain dress \
    drill drive dry dye earn eat edit eliminate empty end enter erase escape estimate evaluate exchange exercise expand \
    express extend extract face fasten feed file fill filter fire fit fold follow forward freeze fry gain give glue go grate \
    graph greet grill group hang heat hide hire hold host identify implement include insert inspect insulate integrate \
    interpret invest invite iron iterate keep kill knit know lay lead leave lend lift light link list live load lock log look \
    lose love maintain mark marinate mash master melt mend mix mount mow mute negotiate notify nurture obtain offer operate \
    optimize order organize overcome pack pair pass paste pay peel perform pick pitch play poach polish pour practice press \
    process produce program promote pronounce protect prove prune publish pull pump purchase push put qualify query quit raise \
    rank reach rebuild receive recharge reclaim recover recycle redeem refill refund register remember renew rent replace \
    report request rescue resolve respond restore return reverse revoke ride rinse roast roll round sail sand scale scan \
    schedule seal search season secure select sell send serve sew share sharpen shave ship shoot show shuffle shut sign sing \
    skip slice soak soften speak speed spell stain start steam stitch stretch study style subscribe subtract sue support swap \
    swim switch take talk tell thaw thicken throw tie tile tighten tow trace track trade train transfer transport trim turn \
    type unblock unclog undo uninstall unlock unsubscribe update upgrade validate visit visualize wait walk warm watch water \
    wax wear weigh weld win wipe wire withdraw work wrap zip bleed";

/// Adjectives that form -er and -est.
pub(super) const ADJECTIVES: &str = "large big small tiny fast quick slow tall short long high low deep wide narrow thick \
    thin heavy light strong weak hard soft easy old young new early late hot cold warm cool wet dry safe cheap rich poor \
    full clean dirty dark bright loud quiet near close rare common simple smart healthy happy busy pretty ugly sweet sour \
    spicy salty fresh great nice kind brave calm sharp smooth rough steep tight loose clear";
