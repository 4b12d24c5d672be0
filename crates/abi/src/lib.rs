//! Layout and protocol of the page shared between mapperd and an application's runtime.
