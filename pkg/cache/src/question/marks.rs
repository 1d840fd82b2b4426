//! The parts that words can play in the rules, one bit each, so that a rule asks for a bit and walks no list.
//!
//! A list says what its words have in common; whether a word is on it follows from that.

/// A set of parts.
pub(super) type Mark = u128;

/// A verb in its base form.
pub(super) const VERB: Mark = 1;
/// The -ing form of a known verb.
pub(super) const GERUND: Mark = 1 << 1;
/// Begins a question: what, how.
pub(super) const QUESTION_WORD: Mark = 1 << 2;
/// Begins a request, besides the words of grammar; its capital at the start tells nothing.
pub(super) const ASKING: Mark = 1 << 3;
/// Another word in lower case than as a name.
pub(super) const AMBIGUOUS_NAME: Mark = 1 << 4;
/// An abbreviation that is no word.
pub(super) const ACRONYM: Mark = 1 << 5;
/// May be a contraction that lost its apostrophe.
pub(super) const BARE: Mark = 1 << 6;
/// Asks about words themselves.
pub(super) const ABOUT_WORDS: Mark = 1 << 7;
/// May begin a phrase at the start of a text that asks nothing.
pub(super) const OPENS: Mark = 1 << 8;
/// May end a phrase at the end of a text that asks nothing.
pub(super) const CLOSES: Mark = 1 << 9;
/// A function word of another language.
pub(super) const FOREIGN: Mark = 1 << 10;
/// May stand before a question and ask nothing, whatever it is worth to the wording.
pub(super) const EDGE: Mark = 1 << 11;
/// Stands for something named.
pub(super) const STAND_IN: Mark = 1 << 12;
/// Makes a very short text a request about what was said before.
pub(super) const MORE: Mark = 1 << 13;
/// Goes on from something said before.
pub(super) const CONTINUES: Mark = 1 << 14;
/// Acts on the world when said as a command.
pub(super) const ACTION: Mark = 1 << 15;
/// Makes the answer depend on when it is asked.
pub(super) const MOMENT: Mark = 1 << 16;
/// Points at something: this, that, one, above.
pub(super) const POINTS: Mark = 1 << 17;
/// The one who asks.
pub(super) const SPEAKER: Mark = 1 << 18;
/// A verb of one's own state.
pub(super) const STATE: Mark = 1 << 19;
/// Kept about a person by somebody: an order, an account.
pub(super) const RECORD: Mark = 1 << 20;
/// A verb that asks how something is, not how it is done: "how do I look".
pub(super) const STATIVE: Mark = 1 << 21;
/// can, should, must and their like.
pub(super) const HELPER: Mark = 1 << 23;
/// First word of a pair that makes the answer depend on when it is asked.
pub(super) const MOMENT_PAIR: Mark = 1 << 24;
/// Something that takes place in a country and a year: an election.
pub(super) const EVENT: Mark = 1 << 25;
/// A country or union, where its name has one reading.
pub(super) const PLACE: Mark = 1 << 26;
/// A greeting.
pub(super) const GREETING: Mark = 1 << 30;
/// Who is greeted.
pub(super) const GREETED: Mark = 1 << 31;
/// and, or, versus, compare: the order rules look closer.
pub(super) const PAIRS: Mark = 1 << 32;
/// not, cannot.
pub(super) const NOT: Mark = 1 << 33;
/// A helper that takes "n't".
pub(super) const TAKES_NOT: Mark = 1 << 34;
/// my, our.
pub(super) const OWN: Mark = 1 << 35;
/// by.
pub(super) const BY: Mark = 1 << 36;
/// which.
pub(super) const WHICH: Mark = 1 << 37;
/// Begins a request for several things: list, name, give.
pub(super) const ENUMERATES: Mark = 1 << 40;
/// located, situated.
pub(super) const LOCATED: Mark = 1 << 41;
/// Spoken pause: um.
pub(super) const PAUSE: Mark = 1 << 44;
/// Where words depend on the case of "be": is, are.
pub(super) const COPULA: Mark = 1 << 46;
/// A past tense that stands before the subject: did, was.
pub(super) const PAST_HELPER: Mark = 1 << 47;

/// did, does.
pub(super) const DOES: Mark = 1 << 48;
/// me.
pub(super) const ME: Mark = 1 << 50;
/// May begin a place before a question.
pub(super) const LEADS: Mark = 1 << 51;
/// to.
pub(super) const TO: Mark = 1 << 52;
/// Measures only, with or without a number before it.
pub(super) const MEASURE: Mark = 1 << 53;

/// Names a piece of code: the word before it is written as it is.
pub(super) const CODE: Mark = 1 << 58;
/// Judges a word: correct, formal.
pub(super) const JUDGES: Mark = 1 << 59;
/// A verb that stands for a commoner one.
pub(super) const OTHER_VERB: Mark = 1 << 60;
/// What a house has for those who come.
pub(super) const AMENITY: Mark = 1 << 27;
/// A house or place that people come to.
pub(super) const HOUSE: Mark = 1 << 28;
/// Has a price, without an article too: delivery.
pub(super) const SOLD: Mark = 1 << 29;
/// A document or program: what is worked on is in it.
pub(super) const DOCUMENT: Mark = 1 << 38;

/// A device or service that one handles as anybody does.
pub(super) const DEVICE: Mark = 1 << 39;
/// A verb for what is done to a device or service that is there already.
pub(super) const HANDLES: Mark = 1 << 42;
/// A setting that is on or off.
pub(super) const SETTING: Mark = 1 << 43;
/// A value that programs hold several of, or several in.
pub(super) const DATA: Mark = 1 << 45;
/// A verb for what a program does to such a value.
pub(super) const ARRANGES: Mark = 1 << 49;
/// if, whether.
pub(super) const WHETHER: Mark = 1 << 56;
/// claim.
pub(super) const CLAIM: Mark = 1 << 61;
/// available.
pub(super) const AVAILABLE: Mark = 1 << 62;
/// What every country has one of.
pub(super) const COUNTRY_HAS: Mark = 1 << 63;

/// cost.
pub(super) const COSTS: Mark = 1 << 54;
/// far, distance.
pub(super) const DISTANCE: Mark = 1 << 57;
/// there, have: whether a place has something.
pub(super) const THERE: Mark = 1 << 55;
/// Asks about letters, marks or writings.
pub(super) const WRITING: Mark = 1 << 64;
/// Of code or a title, where a spelling may be what counts.
pub(super) const SPELT: Mark = 1 << 65;

/// Every part with the words that can play it.
pub(super) const LISTS: &[(Mark, &str)] = &[
    (QUESTION_WORD, "what who where when why how which whose whom"),
    (
        ASKING,
        "list name write translate convert calculate summarize summarise suggest recommend find create generate draw please \
         hi hello hey thanks thank let act turn how whats wheres hows thats dont doesnt didnt isnt arent wasnt werent couldnt \
         shouldnt wouldnt cannot sort reverse parse read open print compare define explain describe difference sorry good \
         excuse quick just um uh so ok okay well dear any steps instructions help need have has will does did way compute evaluate",
    ),
    (AMBIGUOUS_NAME, AMBIGUOUS_NAMES),
    (
        ACRONYM,
        "uk usa uae eu ussr nasa nato nba nfl fifa uefa unesco unicef opec ibm bbc cnn fbi cia nsa irs nhs hmrc dvla html css \
         sql xml json yaml csv pdf jpeg jpg png gif svg url uri http https ftp sftp ssh tls ssl vpn dns dhcp tcp udp ip \
         usb hdmi cpu gpu ssd hdd bios api sdk cli gui jwt oauth rsa aes md5 dna rna hiv covid adhd mri ecg gps sms mms gdp \
         ceo cfo cto faq diy tv pc dvd iq phd mba bmi wifi utc gmt usd eur gbp jpy cny",
    ),
    (
        BARE,
        "whats wheres hows thats dont doesnt didnt isnt arent wasnt werent couldnt shouldnt wouldnt im \
         childs childrens mens womens todays",
    ),
    (
        ABOUT_WORDS,
        "spell spelled spelt spelling plural singular synonym synonyms antonym antonyms etymology rhyme rhymes pronounce \
         pronounced pronunciation letter letters syllable syllables conjugate conjugation grammar noun verb adjective translate \
         translation word words say mean means meaning define definition term phrase called abbreviation acronym difference \
         tense opposite differences differ same different compare comparison versus vs origin",
    ),
    (
        OPENS,
        "hi hello hey dear good sorry excuse quick i just can could may please tell let do does any um uh er erm hmm hm ah oh so \
         ok okay well actually basically btw anyway right question one help need would kindly wondering explain show to \
         greetings yo silly stupid dumb random simple short basic weird odd easy a",
    ),
    (PAUSE, "um uh er erm hmm hm ah oh so ok okay well actually basically btw anyway right"),
    (GREETING, "hi hello hey dear greetings"),
    (GREETED, "there all team everyone everybody folks guys support friends sir madam"),
    (CLOSES, "please thanks you much lot advance thx cheers help appreciated ty regards everyone all"),
    (
        FOREIGN,
        "der das und ist nicht ein eine einen wie wer wo warum wann welche von für mit auf ich sie wir im zu le la les est une du \
         que qui quel quelle quoi pourquoi où je vous dans avec sont el los las es una por qué como cómo cuál cual dónde quién \
         para il che è di perché gli della não você uma são het een wat hoe de och jak jest co nie",
    ),
    (EDGE, "hi hello hey there thanks thank you sorry ok okay well so um please kindly could can would will just now"),
    (STAND_IN, "it its itself they them their theirs he him his she her hers himself herself themselves"),
    (MORE, "more again another else instead further it so no on ahead next"),
    (CONTINUES, "and but or then also yes yeah yep nope sure continue elaborate otherwise"),
    (POINTS, "this these those that one above previous aforementioned latter mentioned"),
    (
        ACTION,
        "cancel delete erase send book transfer pay refund buy order purchase schedule reschedule call dial text email play pause \
         resume stop start restart reboot shutdown turn switch enable disable activate deactivate set remind unsubscribe \
         subscribe submit approve reject deploy execute run install uninstall update upgrade downgrade renew block unblock \
         reset lock unlock open close post publish upload download register withdraw deposit reserve drop kill mute unmute \
         forward reply archive invite revoke grant charge ship return shut confirm terminate wipe begin",
    ),
    (
        MOMENT,
        "today tonight tomorrow yesterday now currently current latest newest recent recently nowadays lately upcoming ongoing \
         trending weather forecast news",
    ),
    (
        MOMENT_PAIR,
        "this last next past coming so these as the stock share gold oil bitcoin crypto exchange interest mortgage price prices \
         time day date",
    ),
    (SPEAKER, "i we my mine our ours myself me us"),
    (
        STATE,
        "have owe own get earn pay live work look feel weigh know still qualify deserve rank stand expect hear receive",
    ),
    (
        RECORD,
        "order orders account accounts balance application applications booking bookings reservation reservations ticket tickets \
         parcel parcels package packages delivery deliveries shipment shipments claim claims refund refunds invoice invoices bill \
         bills subscription subscriptions payment payments appointment appointments case cases grade grades score scores result \
         results salary transaction transactions statement statements loan loans contract contracts plan plans flight flights",
    ),
    (
        STATIVE,
        "be feel look seem sound smell taste know have die live breathe digest hear matter fare appear come exist age compare keep gain lose owe rank always never",
    ),
    (
        WRITING,
        "typo typos misspell misspelled misspelt misspelling misspellings hyphen hyphens hyphenate hyphenated apostrophe apostrophes \
         contraction contractions digits characters chars anagram anagrams scrabble palindrome md5 sha1 sha256 sha512 crc32 base64 \
         morse ascii unicode codepoint codepoints proofread punctuation punctuate comma commas semicolon semicolons dash dashes \
         spacing capitalize capitalise capitalized capitalised capitalization capitalisation uppercase lowercase vowel vowels \
         consonant consonants syllable syllables spell spelled spelt spelling spellings pronounced alphabet glyph emoji emojis \
         underlines encode decode dictionary spellcheck grammarly",
    ),
    (
        SPELT,
        "undefined null nan lint linter linting css html sql yaml json xml regex variable variables column columns selector \
         attribute attributes keyword keywords property properties align syntax exception compile compiles compiler import module \
         sang sings sung lyrics album albums song songs film films movie movies novel novels band bands directed plot cast episode \
         episodes soundtrack wrote starred released british american americans english code script fail fails exist exists parse \
         uses",
    ),
    (HELPER, "can should could would must may"),
    (EVENT, "election elections referendum census earthquake budget"),
    (PLACE, "uk usa uae eu ussr"),
    (PAIRS, "and or versus vs compare between differ different"),
    (NOT, "not cannot"),
    (TAKES_NOT, "do does did can could will would should is are was were have has had must"),
    (OWN, "my our"),
    (BY, "by"),
    (WHICH, "which whom who"),
    (COSTS, "cost"),
    (
        CODE,
        "keyword function method command tag attribute property operator statement clause macro decorator module package class \
         variable flag parameter argument",
    ),
    (
        JUDGES,
        "correct right wrong acceptable valid proper formal informal standard british american english dated outdated archaic \
         old slang colloquial rude offensive",
    ),
    (
        AMENITY,
        "pool gym spa sauna bar restaurant cafe park lot lift elevator cloakroom locker toilet shower kitchen garden \
         playground library shop atm pharmacy clinic lounge lobby terrace balcony bathtub fridge microwave kettle safe \
         charger creche canteen chapel",
    ),
    (
        HOUSE,
        "hotel inn hostel motel resort spa gym restaurant cafe bar pub shop store mall supermarket library museum \
         gallery hospital clinic school university college campus office building airport station terminal park zoo \
         beach campsite cinema theatre theater stadium arena church flat apartment villa lodge room",
    ),
    (
        SOLD,
        "delivery shipping postage parking breakfast insurance membership tuition childcare tickets stamps lessons eggs \
         electricity petrol gas admission entry",
    ),
    (
        DOCUMENT,
        "spreadsheet document settings app editor browser menu script workbook ide database \
         notebook",
    ),
    (
        DEVICE,
        "router modem printer scanner laptop computer pc tablet phone smartphone browser firewall client webcam keyboard headset \
         headphones tv television dishwasher machine fridge refrigerator freezer oven microwave kettle thermostat subscription membership reservation \
         booking",
    ),
    (
        HANDLES,
        "reset restart reboot update configure connect disconnect clean repair fix uninstall cancel renew pause calibrate descale \
         defrost turn switch",
    ),
    (
        SETTING,
        "notifications cookies bluetooth wifi two-factor-authentication autofill autocorrect autosave autoplay autocomplete \
         subtitles captions encryption macros popups mode",
    ),
    (DATA, "list array string dictionary dict set tuple map hashmap vector slice"),
    (ARRANGES, "reverse sort copy filter shuffle merge split print"),
    (WHETHER, "if whether"),
    (CLAIM, "claim"),
    (AVAILABLE, "available"),
    (COUNTRY_HAS, "capital city population currency climate flag gdp area president king chancellor emperor"),
    (OTHER_VERB, "purchase begin obtain"),
    (DISTANCE, "how-far distance"),
    (THERE, "there have"),
    (ENUMERATES, "list name give tell provide"),
    (LOCATED, "located situated"),
    (COPULA, "is are was were"),
    (PAST_HELPER, "did was were"),
    (DOES, "did does"),
    (ME, "me"),
    (LEADS, "in on at near for during to"),
    (TO, "to"),
    (
        MEASURE,
        "km kms kilometre kilometres kilometer kilometers centimetre centimetres cm centimeter centimeters mm millimetre \
         millimetres millimeter millimeters kg kgs kilogram kilograms kilogramme kilogrammes gram grams \
         gramme grammes mg milligram milligrams litre litres liter liters ml millilitre millilitres milliliter milliliters gallon \
         gallons celsius fahrenheit centigrade kelvin percent megabyte megabytes gigabyte gigabytes terabyte terabytes \
         kilobyte kilobytes kph kmh",
    ),
];

/// Words that name a product, company, person, place or work with a capital, and something else without.
const AMBIGUOUS_NAMES: &str = "rust swift go ruby python perl java shell basic pascal polish turkey china \
    apple apples windows window word excel access office outlook teams edge chrome safari opera firefox brave signal discord slack \
    zoom meet notion linear stripe square block chase discover visa delta united spirit frontier virgin orange shells \
    target gap amazon oracle sage visual studio unity unreal steam origin epic valve riot blizzard sonic mini smart \
    beetle golf polo jaguar lotus mustang fiesta focus escort galaxy puma fox tiger panther leopard corona dove tide dawn mars \
    mercury venus earth sun moon saturns crown crowns nova bounty twix snickers galaxy eclipse atom spark storm spring spider \
    hive pig flink beam flow airflow kite pandas panda requests flask bottle pyramid express react angular ember backbone svelte \
    node nodes deno bun yarn grunt gulp webpack parcel docker container swarm helm chef puppet salt ansible vault consul nomad \
    terraform packer vagrant travis circle jenkins maven gradle ant make git mercurial subversion perforce bazaar bash fish zsh \
    vim emacs nano sublime brackets eclipse atom bill bills mark marks rose roses frank jack grace hope faith joy amber crystal \
    olive lily violet iris daisy pat chuck rob drew sue art dean guy miles grant lance pierce wade hunter mason carter cooper \
    baker cook smith fisher king queen prince knight bishop pope abbot stone wood woods hill hills field fields brook brooks lake \
    rivers ford bush reed reeds banks marsh heath glen dale forest cliff cliffs rock sandy stormy sunny summer autumn april may \
    june august march will peter dick john johns jean jeans robin jay martin finch swan wolf bear bears lamb lambs drake ray rays \
    bass pike gill gills flora fauna carol gene genes max min sid skip rich buddy bob dusty rusty penny victor major earl duke \
    baron norm basil ginger rosemary pepper sage cherry peach berry plum china porcelain brazil wales jersey guernsey bath reading \
    nice cork split essen lens brest bergen mobile buffalo phoenix orlando reno augusta independence liberty union enterprise \
    frozen alien aliens cars up brave coco soul cats chicago evita grease hair rent hamilton wicked it emma persuasion dune \
    us who aids sad cat bat ram rom pet mad bad led kiss met nice pip pips sat sats act acts gin tea era eras air crowns marvel \
    dell hp acer dyson hoover kodak polaroid xerox bic sharp canon general electric shell total bp esso subway wimpy \
    burger pizza domino greggs boots next monsoon oasis river island fat face lush body shop mango zara diesel guess supreme \
    converse vans reef champion patagonia columbia timberland ugg clarks dune cat fossil swatch echo alexa siri cortana kindle \
    fire surface switch wii quest portal pixel nexus galaxy note fold flip buds bard gemini claude llama mistral falcon phi \
    grok copilot cursor sweep bolt lime bird dot spin tier uber lyft tesla beats bose harman sonos roku nest ring arlo hue \
    slate salon vice wired time life people nature science cell lancet sun mirror mail guardian independent observer express \
    telegraph star times post herald globe sky channel blues rangers rovers wanderers reds saints kings bulls heat magic jazz \
    nets hawks hornets wizards pistons rockets spurs suns warriors clippers lakers celtics trees saints ravens eagles giants \
    jets dolphins bills patriots colts titans texans chiefs chargers raiders broncos lions packers vikings cowboys cardinals \
    friends lost house bones fringe suits weeds homeland dexter coupling extras misfits skins sherlock luther merlin \
    mandarin god lord lady catholic orthodox democrat republican liberal conservative labour labor green greens tory senate congress house \
    bootstrap sketch box pages numbers keynote photos notes maps drive docs sheets forms classroom planner publisher project \
    parliament commons lords cabinet state bible prophet pole poles dane scot swede finns";
