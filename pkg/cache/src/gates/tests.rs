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

/// Pairs with one answer.
const SHOULD_HIT: &[(&str, &str)] = &[
    // Case, punctuation, contractions, politeness.
    ("What's the capital of Norway?", "what is the capital of norway"),
    ("whats the capital of norway", "What is the capital of Norway?"),
    ("Why dont whales drown", "Why don't whales drown?"),
    ("Hi! Could you tell me what a monad is? Thanks", "What is a monad?"),
    ("Hello Clara, please explain how vaccines work.", "How do vaccines work?"),
    ("Can you please list the noble gases?", "List the noble gases"),
    ("Do you know who composed Carmen?", "Who composed Carmen?"),
    ("Could you tell me how penguins can swim?", "How can penguins swim?"),
    ("Why don't whales drown?", "Why do not whales drown"),
    ("WHO INVENTED THE TELEPHONE?", "Who invented the telephone?"),
    ("What is an API, please?", "What is an API?"),
    ("Good morning, what does idempotent mean? Thank you very much!", "What does idempotent mean?"),
    ("What’s the boiling point of ethanol?", "What is the boiling point of ethanol?"),
    // Frames.
    ("How do I poach an egg?", "How can I poach an egg?"),
    ("How to poach an egg", "How do you poach an egg?"),
    ("What are the steps to poach an egg?", "How do I poach an egg?"),
    ("What does ephemeral mean?", "What is the meaning of ephemeral?"),
    ("Define ephemeral", "What is the definition of ephemeral?"),
    ("How tall is the Matterhorn?", "What is the height of the Matterhorn?"),
    ("How old is the Colosseum?", "What is the age of the Colosseum?"),
    ("Who wrote Dracula?", "Who is the author of Dracula?"),
    ("Who founded the Red Cross?", "Who was the founder of the Red Cross?"),
    ("How many moons are there in the solar system?", "How many moons are in the solar system?"),
    ("How much does a passport cost?", "What is the cost of a passport?"),
    ("How come cats purr?", "Why do cats purr?"),
    ("What kind of metal is brass?", "What type of metal is brass?"),
    ("How does a kiln work?", "Explain how a kiln works"),
    ("How do I clean my oven?", "How do you clean an oven?"),
    ("What does the word laconic mean?", "What does laconic mean?"),
    ("What exactly is a tensor?", "What is a tensor?"),
    ("What are some birds of Kenya?", "What are birds of Kenya?"),
    ("melting point of gallium", "What is the melting point of gallium?"),
    ("How do I sort a map using Kotlin?", "How can I sort a map in Kotlin?"),
    ("Is it possible to freeze tofu?", "Can I freeze tofu?"),
    ("Do I need a permit to fish?", "Do I need a permit to fish"),
    // Order that may move.
    ("In Rust, how do I reverse a vector?", "How do I reverse a vector in Rust?"),
    ("Trains from Ghent to Bruges", "Trains to Bruges from Ghent"),
    ("What is the difference between TCP and UDP?", "What is the difference between UDP and TCP?"),
    ("Compare granite and marble", "Compare marble with granite"),
    ("What is Portugal's capital?", "What is the capital of Portugal?"),
    ("How do I turn the radiator off?", "How do I turn off the radiator?"),
    // Values.
    ("What happened on 5 November 2024?", "What happened on 2024-11-05?"),
    ("What happened on November 5th, 2024?", "What happened on the 5th of November 2024?"),
    ("Is the gate open at 2pm?", "Is the gate open at 14:00?"),
    ("Is the gate open at 2 p.m.?", "Is the gate open at 2:00 PM?"),
    ("Convert 5 km to miles", "Convert five kilometers to miles"),
    ("Name two hundred and five bones", "Name 205 bones"),
    ("How heavy is a 10 percent solution?", "How heavy is a 10% solution?"),
    ("Who lives on $1,000 a month?", "Who lives on 1000 dollars a month?"),
    // Inflection, spelling, synonyms.
    ("What are the side effects of ibuprofen?", "What is the side effect of ibuprofen?"),
    ("What colour is a ruby?", "What color is a ruby?"),
    ("Where can I purchase a bicycle?", "Where can I buy a bike?"),
    ("How do I fix a refrigerator?", "How do I repair a fridge?"),
    ("What is the largest film festival?", "What is the biggest movie festival?"),
    ("What are the best tools for making cheese?", "Which are the best tools for making cheese?"),
    ("Which cities have a metro?", "What city has a metro?"),
    ("How do I erase a directory in Bash?", "How do I delete a folder in bash?"),
    ("How do you normalise a database?", "How do I normalize a database?"),
];

#[test]
fn no_pair_with_different_answers_passes() {
    assert!(MUST_MISS.len() >= 60);
    let served: Vec<_> = MUST_MISS
        .iter()
        .filter(|(one, other)| match (Question::read(one), Question::read(other)) {
            (Ok(one), Ok(other)) => one.same_words() == other.same_words() || judge(&one, &other).is_ok(),
            _ => false,
        })
        .collect();
    assert!(served.is_empty(), "{served:#?}");
    let judged = MUST_MISS.iter().filter(|(one, other)| Question::read(one).is_ok() && Question::read(other).is_ok());
    assert!(judged.count() * 10 >= MUST_MISS.len() * 9, "the table is there to try the gates, not eligibility");
}

#[test]
fn pairs_with_one_answer_pass() {
    assert!(SHOULD_HIT.len() >= 40);
    let refused: Vec<_> = SHOULD_HIT
        .iter()
        .filter_map(|(one, other)| match (Question::read(one), Question::read(other)) {
            (Ok(asked), Ok(stored)) => Some((one, other, judge(&asked, &stored).err()?.gate.as_str())),
            (asked, stored) => Some((one, other, asked.err().or(stored.err())?.as_str())),
        })
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
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
    assert!(served >= 35, "{served} of {}", SHOULD_HIT.len());
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
            turn on off versus please thanks";
        let words: Vec<&'static str> = WORDS.split_whitespace().collect();
        let mark = prop_oneof![8 => Just(" "), 1 => Just(", "), 1 => Just("? "), 1 => Just(": ")];
        prop::collection::vec((prop::sample::select(words), mark), 1..14)
            .prop_map(|parts| parts.into_iter().flat_map(|(word, mark)| [word, mark]).collect())
    }

    /// Plain words, whose case means nothing.
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
                && judge_by(&RULES, &one, &other).is_ok()
            {
                prop_assert_eq!(one.bucket(), other.bucket());
            }
        }

        #[test]
        fn case_outer_space_and_end_punctuation_do_not_matter(text in plain(), end in "[?!.]{0,3}\\s{0,3}") {
            let variant = format!("  {}{end}", text.to_uppercase());
            let (one, other) = (Question::read(&text), Question::read(&variant));
            prop_assert_eq!(one.as_ref().err(), other.as_ref().err());
            if let (Ok(one), Ok(other)) = (one, other) {
                prop_assert_eq!(one.same_words(), other.same_words());
                prop_assert_eq!(one.bucket(), other.bucket());
            }
        }
    }
}
