"""Ways to ask the same thing. Each group is one meaning; its frames are interchangeable when their slots hold the same.

Slots: n, m nouns; v verb; a adjective; t a tool or product; c a place; w a person; d a day or month; y a year; q a number.
Groups in one line of RIVALS are near in words and other in meaning.
"""

GROUPS = {
    "how": ["how do i {v} a {n}", "how can i {v} the {n}", "how to {v} a {n}", "what is the best way to {v} a {n}",
            "what are the steps to {v} a {n}", "please tell me how to {v} my {n}", "could you explain how i {v} a {n}?",
            "i want to {v} my {n}, how do i do that?", "show me how a {n} is {v}ed", "instructions to {v} a {n}"],
    "how in": ["how do i {v} a {n} in {t}", "how can i {v} the {n} with {t}", "what is the way to {v} a {n} using {t}?",
               "{t}: how to {v} a {n}", "in {t}, how does one {v} a {n}", "can you show me how to {v} {n}s in {t}"],
    "why": ["why do people {v} a {n}", "what is the reason people {v} a {n}", "for what reason does someone {v} a {n}?",
            "what makes people {v} a {n}", "explain why one would {v} a {n}"],
    "when": ["when should i {v} the {n}", "at what time should i {v} the {n}?", "when is the right time to {v} a {n}",
             "what is the best moment to {v} my {n}"],
    "safe": ["is it safe to {v} a {n}", "can i safely {v} a {n}?", "is there any danger if i {v} a {n}",
             "would it be risky to {v} the {n}"],
    "may": ["am i allowed to {v} the {n}", "is it legal to {v} a {n}?", "can i legally {v} a {n}",
            "does the law let me {v} a {n}"],
    "avoid": ["how do i avoid having to {v} a {n}", "how can i keep from {v}ing the {n}",
              "what should i do so that i need not {v} my {n}?"],
    "what": ["what is a {n}", "what's a {n}?", "define {n}", "explain what a {n} is", "what does {n} mean",
             "what is the meaning of {n}?", "tell me what a {n} is", "give me the definition of {n}",
             "can you explain the term {n}"],
    "history": ["what is the history of the {n}", "tell me the history of the {n}", "how did the {n} develop over time?",
                "where does the {n} come from historically", "give a short history of the {n}"],
    "use": ["what is a {n} used for", "what are the uses of a {n}?", "what can i use a {n} for",
            "what purpose does a {n} serve"],
    "make": ["what is a {n} made of", "which materials is a {n} made from?", "what does a {n} consist of"],
    "differ": ["what is the difference between a {n} and a {m}", "how does a {n} differ from a {m}?",
               "compare a {n} with a {m}", "{n} vs {m}", "{n} versus {m}, what is different?",
               "in what way are a {n} and a {m} different"],
    "alike": ["what do a {n} and a {m} have in common", "how are a {n} and a {m} similar?",
              "name the similarities of a {n} and a {m}"],
    "better": ["is a {n} better than a {m}", "should i choose a {n} over a {m}?", "why prefer a {n} to a {m}"],
    "cost": ["how much does a {n} cost", "what is the price of a {n}?", "what do i have to pay for a {n}",
             "how expensive is a {n}", "price of a {n}"],
    "cost in": ["how much is a {n} in {c}", "what does a {n} cost in {c}?", "price of a {n} in {c}"],
    "buy": ["where can i buy a {n}", "where do they sell a {n}?", "which shop sells a {n}", "where to purchase a {n}"],
    "sell": ["where can i sell a {n}", "who will buy my {n}?", "where do i get money for my {n}"],
    "rent": ["where can i rent a {n}", "who rents out a {n}?", "where to hire a {n}"],
    "repair": ["my {n} does not work, what can i do", "how do i fix a broken {n}?", "how to repair a {n}",
               "what can i do about a {n} that stopped working"],
    "slow": ["why is my {n} so slow", "what makes my {n} slow?", "my {n} is very slow, why"],
    "loud": ["why is my {n} so loud", "what makes my {n} noisy?", "my {n} makes a lot of noise, why"],
    "best": ["what is the best {n}", "which {n} is best?", "recommend a good {n}", "can you suggest a great {n}",
             "top {n}s"],
    "best for": ["what is the best {n} for a {m}", "which {n} suits a {m} best?", "recommend a {n} for a {m}"],
    "worst": ["what is the worst {n}", "which {n} should i avoid?", "name a {n} that is really bad"],
    "cheap": ["what is the cheapest {n}", "which {n} costs least?", "recommend a low priced {n}"],
    "size": ["how big is a {n}", "what is the size of a {n}?", "how large does a {n} get"],
    "weight": ["how heavy is a {n}", "what does a {n} weigh?", "what is the weight of a {n}"],
    "age": ["how old can a {n} get", "how long does a {n} live?", "what age does a {n} reach"],
    "many": ["how many {n}s are there", "what is the number of {n}s?", "tell me how many {n}s exist"],
    "long": ["how long does it take to {v} a {n}", "how much time does it take to {v} a {n}?",
             "what time do i need to {v} a {n}"],
    "often": ["how often should i {v} the {n}", "how frequently must the {n} be {v}ed?", "how many times should one {v} a {n}"],
    "who": ["who invented the {n}", "who was the inventor of the {n}?", "which person came up with the {n}"],
    "first": ["who was the first to {v} a {n}", "which person was first to {v} a {n}?"],
    "capital": ["what is the capital of {c}", "which city is the capital of {c}?", "name the capital of {c}",
                "{c}'s capital city"],
    "people": ["how many people live in {c}", "what is the population of {c}?", "population of {c}",
               "number of inhabitants of {c}"],
    "weather": ["what is the weather like in {c} in {d}", "how is the weather in {c} in {d}?", "{c} weather in {d}"],
    "travel": ["how do i get to {c}", "what is the best way to travel to {c}?", "how can i reach {c}"],
    "leave": ["how do i get from {c} to the sea", "what is the way from {c} to the coast?"],
    "year": ["what happened in {c} in {y}", "which events took place in {c} in {y}?", "{c} in {y}: what happened"],
    "born": ["when was {w} born", "what is the birth date of {w}?", "in which year was {w} born"],
    "died": ["when did {w} die", "what is the date of {w}'s death?", "in which year did {w} die"],
    "wrote": ["what did {w} write", "which books are by {w}?", "list the works of {w}"],
    "story": ["write a story about a {a} {n}", "tell me a story of a {a} {n}", "i would like a story about a {a} {n}",
              "make up a tale about a {a} {n}"],
    "poem": ["write a poem about a {a} {n}", "compose a poem on a {a} {n}", "i would like a poem about a {a} {n}"],
    "joke": ["tell me a joke about a {n}", "do you know a joke about a {n}?", "make a joke on {n}s"],
    "letter": ["write a letter to {w} about the {n}", "draft a letter about the {n} for {w}",
               "help me write {w} a letter on the {n}"],
    "summary": ["summarize the {n} in {q} sentences", "give me a summary of the {n} in {q} sentences",
                "sum up the {n}, {q} sentences please"],
    "list": ["list {q} examples of a {n}", "give me {q} examples of a {n}", "name {q} {n}s", "what are {q} examples of a {n}?"],
    "function": ["write a {t} function that can {v} a {n}", "give me {t} code to {v} a {n}",
                 "implement a function to {v} a {n} in {t}", "{t} code which {v}s a {n}"],
    "test": ["write a {t} test for a {n}", "give me a unit test of a {n} in {t}", "how do i test a {n} in {t}"],
    "error": ["{t} says the {n} is {a}, what does that mean", "what does it mean when {t} reports a {a} {n}?",
              "{t} error: {a} {n}"],
    "install": ["how do i install {t}", "how can i set up {t}?", "steps to install {t}", "{t} installation guide"],
    "uninstall": ["how do i uninstall {t}", "how can i remove {t}?", "steps to get rid of {t}"],
    "update": ["how do i update {t}", "how can i upgrade {t} to the newest version?", "get the latest version of {t}"],
    "learn": ["how do i learn {t}", "what is the best way to learn {t}?", "where should a beginner start with {t}"],
    "reset": ["how do i reset my {t} password", "i forgot my {t} password", "how can i recover the password of {t}?",
              "{t} password reset"],
    "account": ["how do i delete my {t} account", "how can i close my {t} account?", "remove my {t} account"],
    "new account": ["how do i create a {t} account", "how can i sign up for {t}?", "open a new {t} account"],
    "cancel": ["how do i cancel my {n} subscription", "how can i end the {n} subscription?", "stop my {n} subscription"],
    "refund": ["can i get my money back for the {n}", "how do i get a refund for a {n}?", "i want a refund of my {n}"],
    "return": ["how do i return a {n}", "how can i send the {n} back?", "i want to send back my {n}"],
    "open": ["when does the {n} open on {d}", "what are the opening hours of the {n} on {d}?", "{n} opening time {d}"],
    "close": ["when does the {n} close on {d}", "until what time is the {n} open on {d}?", "{n} closing time {d}"],
    "health": ["is {n} good for your health", "is {n} healthy?", "what are the health benefits of {n}"],
    "harm": ["is {n} bad for your health", "is {n} unhealthy?", "what are the health risks of {n}"],
    "symptom": ["what are the symptoms of {n}", "how do i know if i have {n}?", "signs of {n}"],
    "cure": ["how is {n} treated", "what is the treatment for {n}?", "how do you cure {n}"],
    "cause": ["what causes {n}", "what is the cause of {n}?", "why does {n} happen", "where does {n} come from"],
    "effect": ["what are the effects of {n}", "what does {n} lead to?", "what are the consequences of {n}"],
    "prevent": ["how can {n} be prevented", "how do i prevent {n}?", "what helps against getting {n}"],
    "translate": ["translate {n} into {l}", "what is the {l} word for {n}?", "how do you say {n} in {l}"],
    "synonym": ["give me a synonym for {n}", "what is another word for {n}?", "which word means the same as {n}"],
    "opposite": ["give me the opposite of {n}", "what is the antonym of {n}?", "which word means the reverse of {n}"],
    "more": ["how can i get more {n}", "how do i increase my {n}?", "what raises my {n}"],
    "less": ["how can i get less {n}", "how do i reduce my {n}?", "what lowers my {n}"],
    "convert": ["how many {u} are {q} {x}", "convert {q} {x} to {u}", "what is {q} {x} in {u}?"],
    "with": ["how do i {v} a {n} with a {m}", "can i use a {m} to {v} a {n}?", "use of a {m} to {v} the {n}"],
    "without": ["how do i {v} a {n} without a {m}", "can i {v} a {n} if i have no {m}?", "{v} a {n} when there is no {m}"],
    "before": ["should i {v} the {n} before the {m}", "must the {n} be {v}ed prior to the {m}?"],
    "after": ["should i {v} the {n} after the {m}", "must the {n} be {v}ed once the {m} is over?"],
    "opinion": ["what do you think of the {n}", "what is your opinion on the {n}?", "tell me your view of the {n}"],
    "work": ["how does a {n} work", "explain the working of a {n}", "what is the principle behind a {n}?",
             "can you explain how a {n} functions"],
    "email": ["write an email that asks {w} for the {n}", "draft an email to request the {n} from {w}",
              "help me email {w} to ask for the {n}"],
    "does work": ["does a {n} work", "do {n}s really work?", "is it true that a {n} works"],
    "who is": ["who is {w}", "tell me about {w}", "what do you know about {w}?", "give me information on {w}"],
    "where": ["where is {c}", "where is {c} located?", "what is the location of {c}", "on which continent is {c}?"],
    "money": ["what is the currency of {c}", "which money do they use in {c}?", "what currency is used in {c}"],
    "tongue": ["what language do they speak in {c}", "which languages are spoken in {c}?", "language of {c}"],
    "visit": ["what should i see in {c}", "what are the best sights in {c}?", "things to do in {c}", "{c} tourist attractions"],
    "live": ["what is it like to live in {c}", "how is life in {c}?", "tell me about living in {c}"],
    "is a": ["is a {n} {a}", "are {n}s {a}?", "would you call a {n} {a}"],
    "which": ["which {n} is {a}", "name a {n} that is {a}", "is there a {a} {n}?", "find me a {a} {n}"],
    "pros": ["what are the pros and cons of a {n}", "what are the advantages and disadvantages of a {n}?",
             "list pros and cons of {n}s"],
    "for": ["what are the advantages of a {n}", "what speaks for a {n}?", "name the benefits of a {n}", "why is a {n} good"],
    "against": ["what are the disadvantages of a {n}", "what speaks against a {n}?", "name the drawbacks of a {n}",
                "why is a {n} bad"],
    "find": ["where can i find a {n}", "where do i get a {n}?", "where are {n}s found", "help me find a {n}"],
    "lost": ["i lost my {n}, what should i do", "what do i do if my {n} is lost?", "my {n} is gone, help"],
    "kinds": ["what kinds of {n}s are there", "which types of {n} exist?", "name the different types of {n}"],
    "parts": ["what are the parts of a {n}", "which parts does a {n} have?", "name the components of a {n}"],
    "tips": ["give me tips on how to {v} a {n}", "any advice on {v}ing a {n}?", "tips for {v}ing {n}s"],
    "mistake": ["what are common mistakes when you {v} a {n}", "which errors do people make when they {v} a {n}?"],
    "can": ["can a {n} {v}", "is a {n} able to {v}?", "does a {n} ever {v}"],
    "example": ["show an example of a {n} in {t}", "give me a {t} {n} example", "what does a {n} look like in {t}?"],
    "read": ["how do i read a {n} in {t}", "read a {n} with {t}", "{t}: reading a {n}"],
    "write": ["how do i write a {n} in {t}", "write a {n} with {t}", "{t}: writing a {n}"],
    "speed up": ["how do i make my {n} faster", "how can i speed up the {n}?", "ways to make a {n} quicker"],
    "shorten": ["make this {n} shorter", "shorten the {n}", "can you cut the {n} down?"],
    "rewrite": ["rewrite the {n} in a {a} style", "make the {n} sound {a}", "give the {n} a {a} tone"],
    "title": ["suggest a title for my {n}", "what should i call my {n}?", "give me a name for the {n}"],
    "plan": ["make a plan for a {n} in {d}", "plan my {n} for {d}", "help me to plan a {d} {n}"],
    "eat": ["can i eat {n}", "is {n} edible?", "may one eat {n}s"],
    "grow": ["how do i grow a {n}", "how can i cultivate {n}s?", "what do i need to grow {n}s"],
    "clean": ["how do i clean a {n}", "how can i get my {n} clean?", "what cleans a {n}"],
    "keep": ["how long can i keep a {n}", "how long does a {n} last?", "when does a {n} go bad"],
    "decline": ["write an email that declines the {n} of {w}", "draft an email to say no to the {n} from {w}"],
}

RIVALS = [
    ["how", "why", "when", "safe", "may", "avoid", "long", "often", "first"], ["what", "history", "use", "make", "work", "opinion"],
    ["differ", "alike", "better"], ["cost", "buy", "sell", "rent"], ["best", "worst", "cheap"], ["repair", "slow", "loud"],
    ["size", "weight", "age", "many"], ["capital", "people", "travel", "leave"], ["born", "died", "wrote"],
    ["story", "poem"], ["function", "how in"], ["install", "uninstall", "update", "learn"], ["account", "new account", "reset"],
    ["cancel", "refund", "return"], ["open", "close"], ["health", "harm"], ["symptom", "cure", "cause", "effect", "prevent"],
    ["translate", "synonym", "opposite"], ["more", "less"], ["with", "without"], ["before", "after"], ["email", "decline"],
    ["work", "does work"], ["who is", "born", "died"],
    ["where", "money", "tongue", "visit", "live", "capital", "people"], ["is a", "which"], ["pros", "for", "against"],
    ["find", "buy", "lost", "kinds", "parts"], ["tips", "mistake", "how"], ["read", "write", "example"],
    ["speed up", "slow"], ["shorten", "rewrite", "title"], ["eat", "grow", "clean", "keep"],
]

LISTS = {
    "t": "python javascript rust excel postgres linux windows docker git kubernetes photoshop gmail netflix spotify word java "
         "whatsapp instagram android react django mysql bash matlab outlook slack zoom facebook firefox chrome redis nginx".split(),
    "c": "france germany japan brazil kenya canada india spain italy norway egypt mexico london paris berlin tokyo madrid rome "
         "chicago boston seattle sydney toronto lisbon vienna dublin moscow cairo delhi texas california florida".split(),
    "w": ["albert einstein", "marie curie", "isaac newton", "william shakespeare", "jane austen", "charles darwin",
          "leonardo da vinci", "ada lovelace", "alan turing", "mark twain", "emily bronte", "my boss", "my landlord",
          "the teacher", "a customer", "my neighbour", "the bank", "my doctor", "the manager", "a supplier"],
    "d": "monday tuesday wednesday thursday friday saturday sunday january march april june july august october december".split(),
    "y": "1789 1848 1914 1929 1945 1953 1969 1989 1999 2001 2008 2012 2016 2019 2020 2022 2023".split(),
    "q": "two three four five six seven eight ten twelve 3 5 7 10 15 20 25 30 50 100 250".split(),
    "l": "french german spanish italian latin japanese russian polish dutch portuguese".split(),
    "u": "miles feet pounds inches gallons dollars yards ounces".split(),
    "x": "kilometres metres kilograms centimetres litres euros grams pints".split(),
}

# Words of today's prompts that WordNet's counts know too little of.
NOUNS = """password invoice router laptop smartphone website database spreadsheet server browser subscription playlist podcast
firewall backup cluster container pipeline schema query index cache token webhook endpoint api battery charger printer monitor
keyboard dataset model algorithm loop string array function class variable test library compiler thread socket certificate
domain resume mortgage pension salary tax budget passport visa flight hotel recipe diet workout vaccine allergy headache
insurance contract lease warranty parcel receipt coupon gift wedding birthday essay thesis exam scholarship startup logo slogan
newsletter survey dashboard report chart meeting calendar deadline email video photo song movie game puzzle bicycle scooter
engine tyre garden fence roof oven fridge heater solar panel telescope drone robot sensor chip screen camera headphones""".split()

# Pairs that undo each other; WordNet's antonyms come on top.
OPPOSITES = [pair.split("/") for pair in """create/delete add/remove enable/disable start/stop open/close import/export read/write
push/pull lock/unlock increase/decrease raise/lower install/uninstall encrypt/decrypt upload/download buy/sell lend/borrow
join/leave accept/reject allow/block connect/disconnect mount/unmount compress/extract show/hide send/receive load/save
hire/fire win/lose push/pop subscribe/unsubscribe follow/unfollow include/exclude""".split()]

# British and American spellings of one word.
SPELLINGS = {slot: [pair.split("/") for pair in pairs.split()] for slot, pairs in {
    "n": """colour/color behaviour/behavior traveller/traveler neighbour/neighbor favour/favor flavour/flavor honour/honor
         labour/labor humour/humor rumour/rumor harbour/harbor centre/center theatre/theater metre/meter litre/liter
         fibre/fiber tyre/tire programme/program catalogue/catalog dialogue/dialog defence/defense licence/license
         jewellery/jewelry aluminium/aluminum organisation/organization aeroplane/airplane pyjamas/pajamas mum/mom
         maths/math plough/plow armour/armor vapour/vapor tumour/tumor odour/odor rigour/rigor saviour/savior
         counsellor/counselor jeweller/jeweler modelling/modeling travelling/traveling cheque/check grey/gray
         kilometre/kilometer anaesthetic/anesthetic paediatrician/pediatrician oestrogen/estrogen diarrhoea/diarrhea
         yoghurt/yogurt whisky/whiskey moustache/mustache optimisation/optimization visualisation/visualization
         localisation/localization authorisation/authorization email/e-mail website/web-site""",
    "v": """analyse/analyze organise/organize realise/realize recognise/recognize optimise/optimize summarise/summarize
         visualise/visualize apologise/apologize customise/customize minimise/minimize maximise/maximize
         prioritise/prioritize memorise/memorize criticise/criticize normalise/normalize sanitise/sanitize
         initialise/initialize synchronise/synchronize paralyse/paralyze colour/color honour/honor""",
    "a": "grey/gray colourful/colorful favourite/favorite honourable/honorable sceptical/skeptical cosy/cozy",
}.items()}  # fmt: skip

OPENINGS = ["please", "hi,", "hello,", "hey,", "can you help me:", "quick question:", "i was wondering,", "thanks in advance,"]
ENDINGS = ["please", "thanks", "?", "??", ".", "thank you", "in short", "asap"]
