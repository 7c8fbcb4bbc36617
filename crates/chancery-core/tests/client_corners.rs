//! A client where two things meet: errors and reconnects, fallback and silence, groups and names.
//!
//! Each test names the rows of the catalogue it proves. The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_testkit::script::client;

#[test]
fn a_version_is_forgotten_with_the_resources_it_was_of() {
    // C-031, C-050: a server that takes the version for what the client has would say nothing
    client(
        "% server one
         + w cds *
         < one open
         > one open
         < one cds node
         > one cds v=1 n=1 a@1
         < one cds v=1 n=1
         ! w a@1
         ! w settled
         - w
         < one cds * v=1 n=1
         < one cds v=1 n=1
         ~ 5m
         < one close
         + w cds *
         < one open
         > one open
         < one cds node",
    );
}

#[test]
fn a_delta_stream_does_not_begin_with_what_something_is_wrong_with() {
    // C-040, C-047: if it is what the server has by now, it has to say so
    client(
        "% server one delta
         + u cds a
         < one open
         > one open
         < one cds +a node
         > one cds n=1 a@1
         < one cds n=1
         ! u a@1
         > one cds n=2 -a
         < one cds n=2
         ! u a but missing
         > one end
         ~ 1s
         < one open
         > one open
         < one cds +a node
         > one cds n=1 a@1
         < one cds n=1
         ! u a fine",
    );
}
