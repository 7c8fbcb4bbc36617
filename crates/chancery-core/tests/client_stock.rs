//! The resources that a client has from an earlier run, and a watcher that reads late: one that is
//! gone meanwhile is reported as removed, because the earlier run reported that it was there.
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
//! [`chancery_testkit::script`].

use chancery_testkit::script::client;

#[test]
fn a_restored_member_that_is_gone_before_anybody_read_is_told_as_removed() {
    // C-048, C-056
    client(
        "% server one
         = cds a@1
         = cds c@1
         + w cds * slow
         < one open
         > one open
         < one cds node
         > one cds v=2 n=1 a@1 b@1
         < one cds v=2 n=1
         . w
         ! w a@1
         ! w b@1
         ! w c none missing
         ! w complete
         ! one reads",
    );
    // C-041, C-048
    client(
        "% server one delta
         = cds a@1
         = cds c@1
         + w cds * slow
         < one open
         > one open
         < one cds init=a:1 init=c:1 node
         > one cds n=1 -c
         < one cds n=1
         . w
         ! w a@1
         ! w c none missing
         ! w complete
         ! one reads",
    );
}

#[test]
fn what_is_restored_after_the_watch_began_is_told_as_removed_too() {
    // C-048, C-056
    client(
        "% server one
         + w cds * slow
         < one open
         = cds c@1
         > one open
         < one cds node
         > one cds v=2 n=1
         < one cds v=2 n=1
         . w
         ! w c none missing
         ! w complete
         ! one reads",
    );
}

#[test]
fn what_is_restored_when_the_server_has_spoken_is_not_newer_than_its_word() {
    // C-048
    client(
        "% server one
         + w cds *
         < one open
         > one open
         < one cds node
         > one cds v=2 n=1 a@2
         < one cds v=2 n=1
         ! w a@2
         ! w complete
         = cds a@1
         = cds c@1
         ! w c none missing",
    );
}

#[test]
fn a_restored_member_that_the_server_never_names_is_removed_when_its_time_is_over() {
    // C-056, C-065: one response of this type need not have all there is
    client(
        "% server one
         = eds a@1
         = eds c@1
         + w eds *
         < one open
         ! w a@1
         ! w c@1
         > one open
         < one eds * node
         > one eds v=2 n=1 a@1
         < one eds * v=2 n=1
         ! w complete
         ~ 15s
         ! w c none missing",
    );
    // A server that has nothing may have no other word for it.
    client(
        "% server one
         = cds c@1
         + w cds *
         < one open
         ! w c@1
         > one open
         < one cds node
         ~ 15s
         ! w c none missing
         ! w complete",
    );
}

#[test]
fn the_time_of_a_restored_member_begins_again_with_the_next_stream() {
    // C-065
    client(
        "% server one
         = eds c@1
         + w eds *
         < one open
         ! w c@1
         > one open
         < one eds * node
         > one eds v=2 n=1 a@1
         < one eds * v=2 n=1
         ! w a@1
         ! w complete
         ~ 10s
         > one end age
         < one open
         > one open
         < one eds * node
         > one eds v=2 n=1 a@1
         < one eds * v=2 n=1
         ~ 15s
         ! w c none missing",
    );
}

#[test]
fn a_server_of_delta_confirms_by_its_silence_what_it_was_told() {
    // C-040
    client(
        "% server one delta
         = eds c@1
         + w eds *
         < one open
         ! w c@1
         > one open
         < one eds +* init=c:1 node
         > one eds n=1 a@1
         < one eds n=1
         ! w a@1
         ! w complete
         ~ 60s",
    );
    // It says nothing of what it was not told, so that has to come like anything else.
    client(
        "% server one delta
         + u eds u
         < one open
         > one open
         < one eds +u node
         = eds c@1
         + w eds *
         < one eds +*
         ! w c@1
         > one eds n=1 a@1 u@1
         < one eds n=1
         ! u u@1
         ! w a@1
         ! w u@1
         ! w complete
         ~ 15s
         ! w c none missing",
    );
}

#[test]
fn a_restored_resource_that_does_not_come_is_removed_if_its_server_is_believed() {
    // C-065, C-070: to the server of an earlier run it was there
    client(
        "% server one fail_on_data_errors
         = eds c@1
         + u eds c
         < one open
         ! u c@1
         > one open
         < one eds c node
         ~ 15s
         ! u c none missing",
    );
    // Otherwise what is held stays.
    client(
        "% server one
         = eds c@1
         + u eds c
         < one open
         ! u c@1
         > one open
         < one eds c node
         ~ 15s
         ! u c but missing",
    );
}
