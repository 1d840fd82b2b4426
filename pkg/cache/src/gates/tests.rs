//! Pairs that must miss and pairs that should hit, and that every gate is needed.

use super::*;

/// Reads a text that the tests know to be eligible.
fn read(text: &str) -> Question {
    Question::read(text).unwrap_or_else(|reason| panic!("{text:?} is {}", reason.as_str()))
}

/// All gates but one.
fn judge_without(gate: Gate, asked: &Question, stored: &Question) -> Result<(), Refusal> {
    let rest: Vec<(Gate, Rule)> = RULES.into_iter().filter(|&(other, _)| other != gate).collect();
    judge_by(&rest, asked, stored)
}

#[test]
fn every_gate_stops_a_pair_that_nothing_else_stops() {
    let rows = [
        (Gate::Numbers, "Name the top 5 rivers of Asia", "Name the top 10 rivers of Asia"),
        (Gate::Dates, "What happened on 5 November 2024?", "What happened on 6 November 2024?"),
        (Gate::Times, "Is 2pm a common hour for tea?", "Is 2am a common hour for tea?"),
        (Gate::Units, "How far is 5 km in steps?", "How far is 5 miles in steps?"),
        (Gate::Literals, "What does error E4012 say?", "What does error E4013 say?"),
        (Gate::Form, "Explain gravity as JSON", "Explain gravity as YAML"),
        (Gate::Language, "How do I sort an array in Ruby?", "How do I sort an array in Kotlin?"),
        (Gate::Negation, "Which mushrooms are edible?", "Which mushrooms are not edible?"),
        (Gate::Antonyms, "How do I enable IPv6 on a router?", "How do I disable IPv6 on a router?"),
        (Gate::Comparatives, "Which metals are more common than gold?", "Which metals are less common than gold?"),
        (Gate::Connectives, "Do cats eat rice and fish?", "Do cats eat rice or fish?"),
        (Gate::Pronouns, "When a nurse retires, who pays his pension?", "When a nurse retires, who pays her pension?"),
        (Gate::Direction, "Are there ferries to Malta?", "Are there ferries from Malta?"),
        (Gate::Asked, "When did the Roman Empire collapse?", "Why did the Roman Empire collapse?"),
        (Gate::Persona, "Act as a lawyer. Who owns the moon?", "Act as a pirate. Who owns the moon?"),
        (Gate::Tense, "Who is the chancellor of Austria?", "Who was the chancellor of Austria?"),
        (Gate::Modality, "Can a landlord enter a flat?", "Should a landlord enter a flat?"),
        (Gate::Scope, "Do dogs bite?", "Do dogs usually bite?"),
        (Gate::Entities, "Who founded Zalando?", "Who founded Klarna?"),
        (Gate::Words, "How do I boil rice?", "How do I steam rice?"),
        (Gate::Roles, "Can spiders eat wasps?", "Can wasps eat spiders?"),
    ];
    assert_eq!(rows.len(), RULES.len());
    for (gate, one, other) in rows {
        let (one, other) = (read(one), read(other));
        assert_eq!(judge(&one, &other), Err(Refusal { gate }), "{gate:?}");
        assert_eq!(judge(&other, &one), Err(Refusal { gate }), "{gate:?}");
        assert_eq!(judge_without(gate, &one, &other), Ok(()), "{gate:?} is not the only gate that stops its pair");
        assert_ne!(one.same_words(), other.same_words(), "{gate:?}");
    }
}

/// Pairs whose answers differ.
const MUST_MISS: &[(&str, &str)] = &[
    // Polarity.
    ("turn on dark mode in the editor settings how", "turn off dark mode in the editor settings how"),
    ("How do I turn the heating on?", "How do I turn the heating off?"),
    ("How do I log in to a router?", "How do I log out of a router?"),
    ("Which foods are included in a keto diet?", "Which foods are excluded from a keto diet?"),
    ("How do I encrypt a disk?", "How do I decrypt a disk?"),
    ("How can I upload photos to a server?", "How can I download photos to a server?"),
    ("What should one do before a job interview?", "What should one do after a job interview?"),
    ("Is it legal to buy ivory in Kenya?", "Is it legal to sell ivory in Kenya?"),
    ("Who bought the Chelsea football club?", "Who sold the Chelsea football club?"),
    ("Who sells insulin pumps?", "Who sold insulin pumps?"),
    ("What are the advantages of solar power?", "What are the disadvantages of solar power?"),
    ("What is the minimum length of a password?", "What is the maximum length of a password?"),
    // Negation.
    ("Which mammals can fly?", "Which mammals cannot fly?"),
    ("Why does Postgres use an index?", "Why doesn't Postgres use an index?"),
    ("How do I bake bread with yeast?", "How do I bake bread without yeast?"),
    ("Is the enzyme stable at room temperature?", "Is the enzyme unstable at room temperature?"),
    ("What happens if a pilot fails to land?", "What happens if a pilot has to land?"),
    ("Is honey vegan?", "Is honey non-vegan?"),
    ("How to unlock a bike", "How to not lock a bike"),
    ("Who could be president of Chile?", "Who couldn't be president of Chile?"),
    // Numbers, dates, times, units, money.
    ("What is 15% of 240?", "What is 240% of 15?"),
    ("List two moons of Mars", "List three moons of Mars"),
    ("Who was the first emperor of China?", "Who was the second emperor of China?"),
    ("What were the tax brackets in 2023?", "What were the tax brackets in 2024?"),
    ("What fell on 03/04/2024?", "What fell on 04/03/2024?"),
    ("Is the library open on 5 May 2023?", "Is the library open on 5 June 2023?"),
    ("Is the pharmacy open on Monday?", "Is the pharmacy open on Tuesday?"),
    ("Convert 9:15 pm in Tokyo to UTC", "Convert 9:15 am in Tokyo to UTC"),
    ("How long does it take to drive 300 km?", "How long does it take to drive 300 miles?"),
    ("Is 40 °C a fever?", "Is 40 °F a fever?"),
    ("What can one cook for $20?", "What can one cook for €20?"),
    ("How large is a 100 MB file in bits?", "How large is a 100 Mb file in bits?"),
    ("Convert 1.5 litres to cups", "Convert 15 litres to cups"),
    // Ids, code, quotes.
    ("What does status 502 in nginx 1.24.1 tell?", "What does status 502 in nginx 1.24.2 tell?"),
    ("Explain ticket #A-1017", "Explain ticket #A-1071"),
    ("What does grep -i do?", "What does grep -I do?"),
    ("What does `git reset --hard` change?", "What does `git reset --soft` change?"),
    ("Translate \"good night\" to Welsh", "Translate \"good day\" to Welsh"),
    ("What is stored in /etc/passwd?", "What is stored in /etc/shadow?"),
    ("Is example.com/a the same as example.org?", "Is example.com/b the same as example.org?"),
    ("Is C++ harder to learn than C#?", "Is C harder to learn than C#?"),
    // Roles, direction, order.
    ("Convert Swiss francs to Danish kroner", "Convert Danish kroner to Swiss francs"),
    ("How do I get from Bern to Basel by train?", "How do I get from Basel to Bern by train?"),
    ("Did Brutus kill Caesar?", "Did Caesar kill Brutus?"),
    ("Was the dog bitten by the child?", "Was the child bitten by the dog?"),
    ("Who taught Plato?", "Who did Plato teach?"),
    ("Is every square a rectangle?", "Is every rectangle a square?"),
    ("Does poverty cause crime?", "Does crime cause poverty?"),
    ("Who is the mother of Anna's teacher?", "Who is the teacher of Anna's mother?"),
    ("Flights from airports in Spain to cities", "Flights from airports to cities in Spain"),
    ("What are the advantages of tea versus coffee?", "What are the advantages of coffee versus tea?"),
    ("What is the ratio between height and width?", "What is the ratio between width and height?"),
    // What the reading might lose.
    ("What is 6 / 3?", "What is 6 * 3?"),
    ("What is 5!?", "What is 5?"),
    ("What is (2 + 3) * 4?", "What is 2 + 3 * 4?"),
    ("What foods contain vitamin A?", "What foods contain vitamin?"),
    ("Good morning in Dutch?", "Good evening in Dutch?"),
    ("How do you say thanks?", "How do you say please?"),
    ("Translate to French: thank you", "Translate to French: please"),
    ("How do you say please in Dutch?", "How do you say kindly in Dutch?"),
    ("Is a little salt harmful?", "Is little salt harmful?"),
    ("Who is taught at an academy?", "Who taught at an academy?"),
    ("Is the soup cool?", "Does the soup cool?"),
    ("Did the horse hurt?", "Was the horse hurt?"),
    ("What is the best book on chess?", "What are the best books on chess?"),
    ("Who was John Adams?", "Who was John Adam?"),
    ("How long does a 5 mW laser last?", "How long does a 5 MW laser last?"),
    ("What is the molar mass of Co in grams?", "What is the molar mass of CO in grams?"),
    ("What is the meaning of life?", "What is the definition of life?"),
    ("Well water is safe?", "Water is safe?"),
    ("How do I clean my oven?", "How do I clean his oven?"),
    ("What is a synonym of quick?", "What is a synonym of fast?"),
    ("What is the plural of mouse?", "What is the plural of mice?"),
    ("How do you spell colour?", "How do you spell color?"),
    ("How many letters are in the word two?", "How many letters are in the word 2?"),
    ("What is the difference between a film and a play?", "What is the difference between a movie and a play?"),
    ("What rhymes with kid?", "What rhymes with child?"),
    ("How many e's are in a berry?", "How many e's are in berries?"),
    ("How do I select rows where x > 5?", "How do I select rows where x < 5?"),
    ("Who did Brazil beat in 2014?", "Who beat Brazil in 2014?"),
    ("How many days are in a 3-day ticket?", "How many days are in a 5-day ticket?"),
    ("Birds of Kenya", "Are birds of Kenya"),
    // Comparison, choice, amount.
    ("What is the largest lake in Finland?", "What is the larger lake in Finland?"),
    ("What is the cheapest phone with two cameras?", "What is the most expensive phone with two cameras?"),
    ("Is tea healthier than coffee?", "Is coffee healthier than tea?"),
    ("Do all birds migrate?", "Do some birds migrate?"),
    ("Should a salad contain oil and vinegar?", "Should a salad contain oil or vinegar?"),
    ("What needs at least three votes?", "What needs at most three votes?"),
    ("What if a driver drinks too much?", "What if a driver drinks enough?"),
    // Persons, entities, words.
    ("Does a boss have to show her payslip?", "Does a boss have to show his payslip?"),
    ("what is the capital of austria", "what is the capital of australia"),
    ("who wrote war and peace", "who wrote crime and punishment"),
    ("Who is the CEO of Siemens?", "Who is the CFO of Siemens?"),
    ("How do I clean a window?", "How do I clean Windows?"),
    ("Who leads the US in exports?", "Who leads us in exports?"),
    ("What are the symptoms of flu in cats?", "What are the symptoms of flu in dogs?"),
    ("How do I boil eggs?", "Why do I boil eggs?"),
    ("How many people live in Graz?", "How do people live in Graz?"),
    // Tense, modality, scope, form, language, persona.
    ("What did the bank charge?", "What does the bank charge?"),
    ("Will robots replace nurses?", "Did robots replace nurses?"),
    ("Is Pluto still a planet?", "Is Pluto a planet?"),
    ("Can a minor sign a contract?", "Must a minor sign a contract?"),
    ("Do bees sting in general?", "Do bees sting if provoked?"),
    ("Explain photosynthesis in one sentence", "Explain photosynthesis in one paragraph"),
    ("Explain photosynthesis briefly", "Explain photosynthesis in detail"),
    ("List the planets as JSON", "List the planets as a table"),
    ("Describe Rome in 3 bullet points", "Describe Rome in 5 bullet points"),
    ("How do you say thanks in Dutch?", "How do you say thanks in Greek?"),
    ("You are a chef. How long does it take to roast a duck?", "You are a vet. How long does it take to roast a duck?"),
    ("As a nurse, how do I treat a burn?", "As a chef, how do I treat a burn?"),
];

/// Pairs that differ in a word of grammar, a capital, an order or a near-synonym, any of which may change the answer.
const MUST_MISS_THOUGH_CLOSE: &[(&str, &str)] = &[
    // The second person may be the one who answers.
    ("How do you remember a chat?", "How do I remember a chat?"),
    ("How do you summarise text?", "How to summarise text?"),
    ("How can you become smarter?", "How can I become smarter?"),
    ("How do I export your settings?", "How do I export my settings?"),
    ("How do I rename my router?", "How do I rename a router?"),
    ("How do we vote?", "How do I vote?"),
    ("How can I be wrong?", "How to be wrong?"),
    ("How do I look?", "How can I look?"),
    ("What light is", "What is light"),
    ("How do 5 march?", "How do March 5?"),
    ("Can you write limericks?", "Write limericks"),
    ("Would you draw a bomb?", "Draw a bomb"),
    ("Could you create a virus?", "Create a virus"),
    ("Do you know how to ski?", "How to ski?"),
    ("Can you list files?", "List files"),
    ("Can you describe pictures?", "Describe pictures"),
    ("You are a nurse. What is a stoma?", "Act as a nurse. What is a stoma?"),
    // Articles.
    ("What is a cork?", "What is cork?"),
    ("What is the valley?", "What is a valley?"),
    ("How old is the Vatican?", "How old is Vatican?"),
    ("How wide is the Orange?", "How wide is an orange?"),
    ("Who is the only heir?", "Who is an only heir?"),
    ("Is a few drops enough?", "Is few drops enough?"),
    ("Which plants grow in shade?", "Which plants grow in the shade?"),
    // Capitals.
    ("How do I polish a Mini?", "How do I polish a mini?"),
    ("What is a Swift?", "What is a swift?"),
    ("What does OR do in SQL?", "What does or do in SQL?"),
    ("Venus flytrap size of what?", "venus flytrap size of what?"),
    ("How do I ship Pandas?", "How do I ship pandas?"),
    ("Who is June?", "Who is june?"),
    ("How do I use Node.js?", "How do I use node.js?"),
    ("WHAT IS RUST?", "what is rust?"),
    // Order.
    ("What is the time difference between Lima and Oslo?", "What is the time difference between Oslo and Lima?"),
    ("What is the percent change between rent and wage?", "What is the percent change between wage and rent?"),
    ("What was removed between Java and Kotlin?", "What was removed between Kotlin and Java?"),
    ("What is the difference between 9 and 4?", "What is the difference between 4 and 9?"),
    ("Explain the difference between red ants and bees", "Explain the difference between bees and red ants"),
    ("Describe the relationship between debt and growth", "Describe the relationship between growth and debt"),
    ("Which is better for soup, rice versus pasta?", "Which is better for soup, pasta versus rice?"),
    ("How do I train a dog to run from wolves?", "How do I train a dog from wolves to run?"),
    ("In Spain, how do I book flights to cities?", "How do I book flights to cities in Spain?"),
    ("When cats can swim, who drowns?", "When can cats swim, who drowns?"),
    ("What colour rubies are", "What are colour rubies"),
    ("What do sharks attack?", "What sharks attack?"),
    ("How do I turn the car off the road?", "How do I turn off the car the road?"),
    // Hyphens, breaks and marks.
    ("What is a man-eating plant?", "What is a man eating plant?"),
    ("How tall are three-hundred-year-old oaks?", "How tall are three hundred-year-old oaks?"),
    ("Can I cook, children?", "Can I cook children?"),
    ("What does `null` do in Java?", "What does \"null\" do in Java?"),
    ("What is a & b in C?", "What is a and b in C?"),
    ("How fast does n! grow?", "How fast does n grow?"),
    // Contractions with two readings, and where "not" belongs.
    ("Isn't drinking harmful?", "Is not drinking harmful?"),
    ("Who'd win the duel?", "Who did win the duel?"),
    ("Who's paid for the war?", "Who is paid for the war?"),
    // Units and numbers.
    ("How many joules are in 3 calories?", "How many joules are in 3 kcal?"),
    ("How much is 8 pounds?", "How much is 8 lbs?"),
    ("How long is 6 M?", "How long is 6 m?"),
    ("How strong is 4 g?", "How strong is 4 grams?"),
    ("How long does it take to copy 20 mb?", "How long does it take to copy 20 MB?"),
    ("How do I measure a foot?", "How do I measure feet?"),
    ("What changed in Python 3.10?", "What changed in Python 3.1?"),
    ("Who is 50 cent?", "Who is 50 cents?"),
    ("What is a percentage sign?", "What is a percent sign?"),
    // Need, there, some, possibility.
    ("What do bees need to eat?", "What must bees eat?"),
    ("Who has to vote?", "Who must vote?"),
    ("Why is there life?", "Why is life?"),
    ("What are some owls afraid of?", "What are owls afraid of?"),
    ("Is it possible to be sued for libel?", "Can I be sued for libel?"),
    ("Can moles see as well as shrews?", "Can moles see and shrews?"),
    ("Is a wall no longer than a mile?", "Is a wall not anymore than a mile?"),
    // Near-synonyms and forms.
    ("How high is unemployment?", "What is the height of unemployment?"),
    ("How is film coated?", "How is movie coated?"),
    ("Is quick sand real?", "Is fast sand real?"),
    ("How is a maximal clique found?", "How is a maximum clique found?"),
    ("Why does nobody rhyme?", "Why does nothing rhyme?"),
    ("How do I send mail to a ship?", "How do I send email to a ship?"),
    ("How do I claim damage?", "How do I claim damages?"),
    ("How does SFTPS work?", "How does SFTP work?"),
    ("What is a labour party?", "What is a Labor party?"),
    ("What is a programme?", "What is a program?"),
    ("Which has more short days?", "Which has shorter days?"),
    ("How much salt is for cooking rice?", "How much salt is for cook rice?"),
    ("How come owls hoot?", "Why owls hoot?"),
    ("What exactly is a sonnet?", "What is a sonnet?"),
    ("Whom must a king please?", "Whom must a king?"),
    ("Hello, world program in C", "World program in C"),
    ("How do I sign in a contract?", "How do I login a contract?"),
];

/// Pairs with one answer.
const SHOULD_HIT: &[(&str, &str)] = &[
    // Case of words that only ask, punctuation, contractions, politeness.
    ("What's the capital of Norway?", "what is the capital of Norway"),
    ("whats the capital of Norway", "What is the capital of Norway?"),
    ("Why dont whales drown", "Why don't whales drown?"),
    ("Hi! Could you tell me what a monad is? Thanks", "What is a monad?"),
    ("Hi! Could you tell me what's the capital of Norway, please?", "What is the capital of Norway?"),
    ("Would you tell me what photosynthesis is?", "What is photosynthesis?"),
    ("Tell me what the capital of Norway is.", "What is the capital of Norway?"),
    ("Hello, please explain how vaccines work.", "Explain how vaccines work"),
    ("Can you please list the noble gases?", "List the noble gases"),
    ("Could you list the noble gases?", "list the noble gases"),
    ("Could you show me how to poach an egg?", "Show me how to poach an egg"),
    ("What is an API, please?", "What is an API?"),
    ("Hello! What does idempotent mean? Thank you very much!", "What does idempotent mean?"),
    ("What’s the boiling point of ethanol?", "What is the boiling point of ethanol?"),
    ("How do tides form", "how do tides form?!"),
    ("Hi, why do glaciers move?", "Why do glaciers move?"),
    ("Where're the Alps?", "Where are the Alps?"),
    ("How do I convert XML to JSON?", "how do I convert XML to JSON"),
    // Frames.
    ("How do I poach an egg?", "How can I poach an egg?"),
    ("How to poach an egg", "How do I poach an egg?"),
    // The sides of a difference.
    ("What is the difference between TCP and UDP?", "What is the difference between UDP and TCP?"),
    (
        "What are the main differences between a bay and a fjord?",
        "What are the main differences between a fjord and a bay?",
    ),
    // Values.
    ("What happened on 5 November 2024?", "What happened on 2024-11-05?"),
    ("What happened on November 5th, 2024?", "What happened on 5 November 2024?"),
    ("Is the gate open at 2pm?", "Is the gate open at 14:00?"),
    ("Is the gate open at 2 p.m.?", "Is the gate open at 2:00 PM?"),
    ("Convert 5 km to miles", "Convert five kilometers to miles"),
    ("Name two hundred and five bones", "Name 205 bones"),
    ("How heavy is a 10 percent solution?", "How heavy is a 10% solution?"),
    ("Who lives on $1,000 a month?", "Who lives on 1000 dollars a month?"),
    ("How fast is 90 km/h in 20 sec?", "How fast is 90 km/h in 20 seconds?"),
    // Spelling.
    ("What colour is a ruby?", "What color is a ruby?"),
    ("How do I normalise a database?", "How do I normalize a database?"),
    // Rules.
    ("Compare tin and zinc", "Compare zinc and tin"),
    ("Trains to Bruges from Ghent", "Trains from Ghent to Bruges"),
    ("What kind of person is a hermit?", "What type of person is a hermit?"),
    ("Who wrote the Torah?", "Who is the author of the Torah?"),
];

#[test]
fn no_pair_with_different_answers_passes() {
    assert!(MUST_MISS.len() >= 60 && MUST_MISS_THOUGH_CLOSE.len() >= 60);
    let pairs = || MUST_MISS.iter().chain(MUST_MISS_THOUGH_CLOSE);
    let served: Vec<_> = pairs()
        .filter(|(one, other)| match (Question::read(one), Question::read(other)) {
            (Ok(one), Ok(other)) => one.same_words() == other.same_words() || judge(&one, &other).is_ok(),
            _ => false,
        })
        .collect();
    assert!(served.is_empty(), "{served:#?}");
    let judged = pairs().filter(|(one, other)| Question::read(one).is_ok() && Question::read(other).is_ok());
    assert!(judged.count() * 10 >= pairs().count() * 9, "the table is there to try the gates, not eligibility");
}

#[test]
fn pairs_with_one_answer_pass() {
    assert!(SHOULD_HIT.len() >= 30);
    let refused: Vec<_> = SHOULD_HIT
        .iter()
        .filter_map(|(one, other)| match (Question::read(one), Question::read(other)) {
            (Ok(asked), Ok(stored)) => Some((one, other, judge(&asked, &stored).err()?.gate.as_str())),
            (asked, stored) => Some((one, other, asked.err().or(stored.err())?.as_str())),
        })
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

/// The pairs of a data file, by kind.
fn pairs(file: &'static str) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let mut kind = "";
    file.lines().filter(|line| !line.starts_with('#')).filter_map(move |line| {
        if let Some((one, other)) = line.split_once(" | ") {
            return Some((kind, one, other));
        }
        kind = line.trim_matches(['[', ']']);
        None
    })
}

#[test]
fn no_pair_of_two_answers_in_the_data_is_served() {
    let frozen = pairs(include_str!("../../tests/pairs/frozen-miss.txt"));
    let second = pairs(include_str!("../../tests/pairs/frozen2-miss.txt"));
    let third = pairs(include_str!("../../tests/pairs/frozen3-miss.txt"));
    let attack = pairs(include_str!("../../tests/pairs/attack-miss.txt"));
    let rows: Vec<_> = pairs(include_str!("../../tests/pairs/miss.txt"))
        .chain(frozen)
        .chain(second)
        .chain(third)
        .chain(attack)
        .collect();
    assert!(rows.len() >= 1_450);
    let wrong: Vec<_> = rows.into_iter().filter(|(_, one, other)| served(one, other)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn most_pairs_of_one_answer_in_the_data_are_served() {
    for (file, least) in [
        (include_str!("../../tests/pairs/serve.txt"), 70),
        (include_str!("../../tests/pairs/frozen-serve.txt"), 60),
        (include_str!("../../tests/pairs/frozen2-serve.txt"), 60),
        (include_str!("../../tests/pairs/frozen3-serve.txt"), 65),
    ] {
        let (served, all) = pairs(file)
            .fold((0, 0), |(served, all), (_, one, other)| (served + usize::from(self::served(one, other)), all + 1));
        assert!(served * 100 >= all * least, "{served} of {all}");
    }
}

/// Serves `other`'s answer to `one`, as the cache would.
fn served(one: &str, other: &str) -> bool {
    matches!((Question::read(one), Question::read(other)), (Ok(one), Ok(other)) if judge(&one, &other).is_ok())
}

#[test]
fn opposite_polarity_and_other_years_do_not_share_an_answer() {
    assert!(!served("turn on night mode", "turn off night mode"));
    assert!(!served("How do I turn on night mode?", "How do I turn off night mode?"));
    assert!(!served("What changed in the visa rules of 2024?", "What changed in the visa rules of 2025?"));
}

#[test]
fn reversed_roles_and_ids_that_differ_by_a_digit_do_not_share_an_answer() {
    assert!(!served("convert GBP to CHF", "convert CHF to GBP"));
    assert!(!served("status of dispute #D-4411", "status of dispute #D-4412"));
    assert!(!served("What is the status of dispute #D-4411?", "What is the status of dispute #D-4412?"));
}

#[test]
fn the_same_words_tier_serves_what_differs_in_wording_only() {
    let same = |(one, other): &&(&str, &str)| read(one).same_words() == read(other).same_words();
    let served = SHOULD_HIT.iter().filter(same).count();
    assert!(served >= 30, "{served} of {}", SHOULD_HIT.len());
}

#[test]
fn only_questions_in_one_bucket_pass() {
    for (one, other) in SHOULD_HIT {
        assert_eq!(read(one).bucket(), read(other).bucket(), "{one} / {other}");
    }
    assert_ne!(read("Name 5 rivers").bucket(), read("Name 6 rivers").bucket());
    assert_ne!(read("Explain gravity as JSON").bucket(), read("Explain gravity as YAML").bucket());
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    /// Questions of words that the rules know in many classes, and of some that they do not.
    fn question() -> impl Strategy<Value = String> {
        const WORDS: &str = "what who how do can is the a of in to from between and or not no without before after more most \
            cheaper largest two 5 1,000 2pm 14:00 km miles $5 november 2024 2024-11-05 #A-7 v1.2.3 --force `x` if was will \
            should must he his python json sentence list oslo cats cities enabled installing france's don't unsafe act as \
            turn on off versus please thanks which whom whose by whom written was located year did fall come down list give me \
            election uk compare different differ cost have my our childs calculate times mean meaning who author not fail \
            process for poaching teh colour Python hey team sorry question Emma's Emma 'Emma' \u{1f600} at hotel there";
        let words: Vec<&'static str> = WORDS.split_whitespace().collect();
        let mark = prop_oneof![8 => Just(" "), 1 => Just(", "), 1 => Just("? "), 1 => Just(": ")];
        prop::collection::vec((prop::sample::select(words), mark), 1..14)
            .prop_map(|parts| parts.into_iter().flat_map(|(word, mark)| [word, mark]).collect())
    }

    /// A plain question.
    fn plain() -> impl Strategy<Value = String> {
        prop::collection::vec("[a-z]{3,9}", 1..9).prop_map(|words| format!("what is the {}", words.join(" ")))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn reading_never_panics(text in any::<String>(), tail in "[\\PC\\s]{0,80}") {
            let _ = Question::read(&text);
            let _ = Question::read(&tail);
            let _ = Question::read(&format!("what is {tail}"));
        }

        #[test]
        fn judging_is_symmetric(one in question(), other in question()) {
            if let (Ok(one), Ok(other)) = (Question::read(&one), Question::read(&other)) {
                prop_assert_eq!(judge(&one, &other), judge(&other, &one));
            }
        }

        #[test]
        fn a_question_passes_with_itself_by_every_gate(text in question()) {
            if let (Ok(one), Ok(other)) = (Question::read(&text), Question::read(&text)) {
                prop_assert_eq!(one.same_words(), other.same_words());
                prop_assert_eq!(judge_by(&RULES, &one, &other), Ok(()));
            }
        }

        #[test]
        fn who_passes_shares_the_bucket(one in question(), other in question()) {
            if let (Ok(one), Ok(other)) = (Question::read(&one), Question::read(&other))
                && judge(&one, &other).is_ok()
            {
                prop_assert_eq!(one.bucket(), other.bucket());
            }
        }

        #[test]
        fn the_first_capital_outer_space_and_end_punctuation_do_not_matter(text in plain(), end in "[?!.]{0,3}\\s{0,3}") {
            let variant = format!("  {}{end}", text.replacen("what", "What", 1));
            let (one, other) = (Question::read(&text), Question::read(&variant));
            prop_assert_eq!(one.as_ref().err(), other.as_ref().err());
            if let (Ok(one), Ok(other)) = (one, other)
                && !(one.strict() || other.strict()) // a word that came up may ask about writing or code ("typo", "run a!")
            {
                prop_assert_eq!(one.same_words(), other.same_words());
                prop_assert_eq!(one.bucket(), other.bucket());
            }
        }
    }
}
