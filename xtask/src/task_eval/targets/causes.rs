//! Why a number lies outside its band, as far as it was found, under version 1 of the protocol.

/// By target and, where only some of its numbers are meant, how the number's name begins.
const CAUSES: &[(&str, &str, &str)] = &[
    (
        "MP-1",
        "ALS",
        "the two phases that the specification gives ALS pull its best count apart: with them 60 contexts are best, without them fewer",
    ),
    (
        "MP-8",
        "gain of SVD and freqmine",
        "the model has the gain (best fixed sets: 0.960 against 0.812 under Linux), MAPPER does not find it: it keeps 35 contexts for SVD and 32 for freqmine, and 13 lie idle",
    ),
    (
        "MP-9",
        "",
        "SVD-like sharing lets ALS gain from one socket in the model",
    ),
    (
        "MP-12",
        "CPU sets",
        "with four programs MAPPER settles in the model and explores at fixed intervals only; the published code explores at random with probability 0.3",
    ),
    (
        "MP-12",
        "contexts",
        "as above: with four programs it settles",
    ),
    (
        "MP-13",
        "",
        "five of the thirteen mixes hold moldyn, which loses two thirds on Linux; nine of the mixes are assumed",
    ),
    (
        "MP-16",
        "",
        "conjgrad scales in the model once its team follows, so MAPPER takes nothing from it",
    ),
    (
        "MP-18",
        "",
        "the gain of SGD and SVD is there (1.3 of fair), but their neighbours lose a fifth to hyperthreads: fair share pairs each of their threads with a stalled one, MAPPER with one of their own",
    ),
    ("MP-19", "", "neighbours of SGD and SVD, as at MP-21"),
    ("MP-20", "gain of", "neighbours of SGD and SVD, as at MP-21"),
    (
        "MP-21",
        "promises",
        "all eight are neighbours of SGD and SVD: they hold 40 contexts as under fair share, but as 20 whole cores rather than one context of 40; contexts that SGD and SVD free are not taken up",
    ),
    (
        "MP-24",
        "memcached with",
        "interference by cache and sharing is weaker in the model than 17 ms implies",
    ),
    (
        "MP-24",
        "memcached's p99",
        "Linux's wake-up delay, fitted to one mix, is too much for the others",
    ),
    (
        "MP-25",
        "in-memory",
        "Linux lends it the CPUs of serial neighbours, which exclusive sets cannot; and beside SGD it sits on whole cores as at MP-21",
    ),
    (
        "MP-25",
        "media",
        "the share of a program that sleeps half of the time is too small in the mean field, so Linux starves it",
    ),
    (
        "MP-25",
        "services of fair, Linux",
        "media streaming, as above",
    ),
    (
        "MP-27",
        "",
        "the promise hardly limits MAPPER in the model: it gives away little",
    ),
    (
        "MP-28",
        "",
        "the neighbours of SGD and SVD, as at MP-21: the loss comes from placement, which the promise does not see",
    ),
    (
        "MP-29",
        "points",
        "all of the decision's 5 ms fall on the program that owns the first context, and programs with barriers wait for it: at 20 ms a quarter of their time",
    ),
    (
        "SM-4",
        "",
        "Linux loses less in the model: with 10 to 20 threads spread over four sockets sharing costs less than published, since stalls grow with the number of threads",
    ),
    ("SM-5", "over Linux", "as at SM-4"),
    ("SM-6", "mixes 1-11, SAM-MP", "as at SM-4"),
    (
        "SM-8",
        "80 CPUs, over SAM",
        "the policy sam of this project keeps the threads of a program together, which SAM did not; it is nearer to SAM-MPH than SAM was",
    ),
    ("SM-9", "80 CPUs, slowest program, SAM", "as at SM-8"),
    ("SM-9", "80 CPUs, fastest program, SAM", "as at SM-8"),
    ("SM-5", "over SAM", "as at SM-8"),
    (
        "SM-10",
        "",
        "activity and IPC of the model's programs lie well to one side of both thresholds",
    ),
    (
        "NU-13",
        "Scalability",
        "the policy decides by utilisation with hysteresis and does not oscillate as published",
    ),
    (
        "CPR-2",
        "",
        "link and latency of tile36 are assumed; they bound programs of few clusters less than those of all",
    ),
    (
        "NC-2",
        "",
        "as at NC-3: without a loss there is nothing to gain by fewer cores",
    ),
    (
        "NC-3",
        "streamcluster",
        "the assumed row-buffer loss of 25 % bounds any gain by 1.33, and six cores do not saturate a node of opt48; the policy also does not know that all data are on node 0",
    ),
    (
        "NC-3",
        "dgemm",
        "its misses do not saturate any node, and no data are on one node",
    ),
    (
        "NC-4",
        "over CRUST",
        "the approximation gives too few cores where working sets are assumed large",
    ),
    ("NC-4", "over Varuna", "as at NC-2"),
];

/// The cause for a number.
pub(super) fn of(id: &str, what: &str) -> Option<&'static str> {
    CAUSES
        .iter()
        .find(|(target, begin, _)| *target == id && what.starts_with(begin))
        .map(|(.., cause)| *cause)
}
