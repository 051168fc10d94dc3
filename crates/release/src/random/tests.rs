//! Which randomly generated values are kept.

use serde_json::json;

use super::*;

#[test]
fn places_that_differ_between_renders_keep_their_value() {
    let mut ours =
        json!({ "data": { "password": "b", "user": "new", "fresh": "x" }, "list": [{ "k": "b" }] });
    let theirs = json!({ "data": { "password": "c", "user": "new", "fresh": "y" }, "list": [{ "k": "c" }] });
    let before = json!({ "data": { "password": "a", "user": "old" }, "list": [{ "k": "a" }] });
    assert!(settle(&mut ours, &theirs, &before));
    assert_eq!(
        ours,
        json!({ "data": { "password": "a", "user": "new", "fresh": "x" }, "list": [{ "k": "a" }] })
    );
}

#[test]
fn texts_keep_their_draws_and_follow_the_values() {
    let ours = "mood=wild\npassword=bbbb\nurl=db://u:bbbb@new-host/x\nextra=1\n";
    let theirs = "mood=wild\npassword=bccc\nurl=db://u:bccc@new-host/x\nextra=1\n";
    let before = "mood=calm\npassword=aaaa\nurl=db://u:aaaa@host/x\n";
    assert_eq!(
        settle_text(ours, theirs, before),
        "mood=wild\npassword=aaaa\nurl=db://u:aaaa@new-host/x\nextra=1\n"
    );
    // Nothing in these shows where the random part is.
    assert_eq!(settle_text("bbbb", "cccc", "aaaa"), "aaaa");
    assert_eq!(settle_text("x\nbb\nbb", "x\ncc\ncc\ncc", "x\naa"), "x\naa");
}

#[test]
fn a_draw_is_not_taken_from_a_line_that_only_looks_like_it() {
    let cases = [
        "{\"user\": \"administrator\",\n \"password\": \"DRAWN\",}",
        "db.user=\"admin-account\"\ndb.password=\"DRAWN\"",
        "- \"one of them\",\n- \"DRAWN\",",
        "user: \"ä\"\npassword: \"DRAWN\"",
    ];
    for case in cases {
        let drawn = |text: &str| case.replace("DRAWN", text);
        let (ours, theirs, before) = (drawn("bbbbbbbb"), drawn("cccccccc"), drawn("aaaaaaaa"));
        assert_eq!(settle_text(&ours, &theirs, &before), before);
        // Nor if there are further lines.
        let more = |text: &str| format!("fresh=\"1\"\n{text}\nmore=\"2\"");
        let settled = settle_text(&more(&ours), &more(&theirs), &before);
        assert!(settled == before || settled == more(&before), "{settled}");
    }
}

#[test]
fn a_draw_is_not_mixed_with_what_follows_it() {
    let settled = |ours: &str, theirs: &str, before: &str| settle_text(ours, theirs, before);
    let before = "url=db://u:aaaaaaaa@oldhost/x";
    let (ours, theirs) = ("url=db://u:bbbbbbbbbbbbbbbb@new/x", "url=db://u:cccccccccccccccc@new/x");
    assert_eq!(settled(ours, theirs, before), before, "the draw is longer now");
    let (ours, theirs) = ("url=db://u:bbbb@new/x", "url=db://u:cccc@new/x");
    assert_eq!(settled(ours, theirs, before), before, "the draw is shorter now");
    let (ours, theirs) = ("url=db://u:bbbbbbbb@new/x", "url=db://u:cccccccc@new/x");
    assert_eq!(settled(ours, theirs, before), "url=db://u:aaaaaaaa@new/x");
    assert_eq!(settled("bbbb@new", "cccc@new", "aaa@old\naaaa@new"), "aaaa@new");
}

#[test]
fn draws_that_nothing_tells_apart_are_not_swapped() {
    let users = |users: &[(&str, &str)]| {
        let lines = users.iter().map(|(name, drawn)| format!("- name: {name}\n  password: {drawn}\n"));
        lines.collect::<String>()
    };
    let before = users(&[("a", "aaaa"), ("b", "bbbb")]);
    let after = |names: [&str; 2]| {
        let draw = |drawn: [&'static str; 2]| users(&[(names[0], drawn[0]), (names[1], drawn[1])]);
        settle_text(&draw(["uuuu", "vvvv"]), &draw(["xxxx", "yyyy"]), &before)
    };
    assert_eq!(after(["b", "c"]), before);
    assert_eq!(after(["a", "c"]), before);
    assert_eq!(after(["a", "b"]), before);
    let one = users(&[("a", "aaaa")]);
    let (ours, theirs) = (users(&[("a", "u1"), ("b", "v1")]), users(&[("a", "x2"), ("b", "y2")]));
    assert_eq!(settle_text(&ours, &theirs, &one), one, "two do not share a password");
}

#[test]
fn a_text_in_which_only_the_draws_change_stays() {
    const PEM: &str =
        "-----BEGIN PRIVATE KEY-----\nD64\nD64\nD64\nD64\nD64\nD64\nD22==\n-----END PRIVATE KEY-----\n";
    let templates = [
        PEM.to_owned(),
        format!("mood=calm\n{PEM}{PEM}password=D12\n"),
        "{\"user\": \"administrator\",\n \"password\": \"D16\",\n \"token\": \"D24\",\n}".to_owned(),
        "url=db://u:D16@host:5432/x?key=D16\nuser=u\npassword=D16".to_owned(),
        "D32".to_owned(),
        "D64\nD64\nD64".to_owned(),
        "- D20\n- D20\n- \"D20\"\n".to_owned(),
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let mut draw = |template: &str| {
        let mut parts = template.split('D');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let digits = part.chars().take_while(char::is_ascii_digit).count();
            let (length, rest) = part.split_at(digits);
            let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(64).collect();
            let encoded = BASE64.encode(bytes);
            text.push_str(&encoded[..length.parse().unwrap_or(0)]);
            if digits == 0 {
                text.push('D');
            }
            text.push_str(rest);
        }
        text
    };
    for round in 0..2_000 {
        for template in &templates {
            let (ours, theirs, before) = (draw(template), draw(template), draw(template));
            assert_eq!(settle_text(&ours, &theirs, &before), before, "round {round}");
        }
    }
}

#[test]
fn secrets_are_looked_into() {
    let encoded = |text: &str| json!(BASE64.encode(text));
    let mut ours = json!({ "conf": encoded("a=2\nkey=bbbb\n"), "plain": encoded("same") });
    let theirs = json!({ "conf": encoded("a=2\nkey=cccc\n"), "plain": encoded("same") });
    let before = json!({ "conf": encoded("a=1\nkey=aaaa\n"), "plain": encoded("old") });
    assert!(settle_data(ours.as_object_mut().unwrap(), Some(&theirs), Some(&before)));
    assert_eq!(ours, json!({ "conf": encoded("a=2\nkey=aaaa\n"), "plain": encoded("same") }));
}

fn rendered(documents: &[Value]) -> Rendered {
    let text = |document: &Value, path: &str| {
        document.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let manifest = |document: &Value| Manifest {
        kind: text(document, "/kind"),
        name: text(document, "/metadata/name"),
        content: document.to_string(),
        ..Manifest::default()
    };
    Rendered { manifests: documents.iter().map(manifest).collect(), ..Rendered::default() }
}

/// Returns the documents after keeping values of `before`, rendered as `ours` and as `theirs`.
fn kept(ours: &[Value], theirs: &[Value], before: &[Value]) -> Vec<Value> {
    let last = Release { manifest: rendered(before).manifest(false), ..Release::default() };
    let mut rendered_once = rendered(ours);
    keep(&mut rendered_once, &rendered(theirs), &last).unwrap();
    let contents = rendered_once.manifests.iter().flat_map(|manifest| documents(&manifest.content).unwrap());
    contents.collect()
}

#[test]
fn bytes_in_secrets_are_kept_beside_texts() {
    let secret = |drawn: u8| {
        let text = BASE64.encode(format!("key={}", char::from(drawn).to_string().repeat(8)));
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" },
            "data": { "bytes": BASE64.encode([0xff, drawn, 0xfe]), "text": text },
        })
    };
    assert_eq!(kept(&[secret(b'o')], &[secret(b't')], &[secret(b'b')]), [secret(b'b')]);
}

#[test]
fn checksums_follow_configurations_that_change() {
    let chart = |mood: &str, drawn: &str| {
        let config = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" },
            "data": { "conf": format!("mood={mood}\nkey={drawn}\n") },
        });
        let annotations = json!({ "checksum/config": format!("sum-{drawn}"), "rollme": drawn });
        let template = json!({ "metadata": { "annotations": annotations } });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" },
            "spec": { "template": template },
        });
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "j" },
            "spec": { "template": template },
        });
        vec![config, deployment, job]
    };
    let annotations = |object: &Value| object["spec"]["template"]["metadata"]["annotations"].clone();
    let first = chart("calm", "aaaa");
    assert_eq!(kept(&chart("calm", "bbbb"), &chart("calm", "cccc"), &first), first);

    let second = kept(&chart("wild", "bbbb"), &chart("wild", "cccc"), &first);
    assert_eq!(second[0]["data"]["conf"], "mood=wild\nkey=aaaa\n");
    assert_eq!(annotations(&second[1]), json!({ "checksum/config": "sum-bbbb", "rollme": "aaaa" }));
    assert_eq!(second[2], first[2], "a job cannot be changed");
    // The next upgrade changes nothing.
    assert_eq!(kept(&chart("wild", "dddd"), &chart("wild", "eeee"), &second), second);

    let (ours, theirs) = (chart("wild", "dddd").split_off(1), chart("wild", "eeee").split_off(1));
    let third = kept(&ours, &theirs, &second);
    assert_eq!(annotations(&third[0])["checksum/config"], "sum-dddd", "the configuration is gone");
}

#[test]
fn lists_and_plain_values_are_settled_place_by_place() {
    let settled = |ours: Value, theirs: Value, before: Value| {
        let mut ours = ours;
        let taken = settle(&mut ours, &theirs, &before);
        (taken, ours)
    };
    assert_eq!(settled(json!([1, "x"]), json!([2, "x"]), json!([3, "y"])), (true, json!([3, "x"])));
    assert_eq!(settled(json!(["x", 1]), json!(["x", 2]), json!(["y", 3])), (true, json!(["x", 3])));
    assert_eq!(settled(json!(1), json!(2), json!("text")), (true, json!("text")));
    assert_eq!(settled(json!([1]), json!([1]), json!([3])), (false, json!([1])), "it was not drawn");
    // It is uncertain which items correspond.
    for (ours, theirs, before) in [
        (json!([1]), json!([2, 2]), json!([3])),
        (json!([1]), json!([2]), json!([3, 3])),
        (json!([1]), json!([2, 2]), json!([3, 3])),
        (json!([1]), json!({ "a": 2 }), json!([3])),
        (json!({ "a": 1 }), json!({ "a": 2 }), json!("text")),
        (json!({ "a": 1 }), json!("text"), json!({ "a": 3 })),
        (json!("a"), json!("b"), json!({ "c": 1 })),
        (json!("a"), json!("b"), json!(["c"])),
    ] {
        assert_eq!(settled(ours.clone(), theirs, before), (false, ours));
    }
}

#[test]
fn secrets_keep_what_only_they_had() {
    let encoded = |text: &str| json!(BASE64.encode(text));
    let map = |value: Value| value.as_object().cloned().unwrap_or_default();
    let mut ours = map(json!({ "same": encoded("x"), "new": encoded("y"), "odd": "no base64!" }));
    let theirs = json!({ "same": encoded("x"), "new": encoded("z"), "odd": "none either!" });
    assert!(!settle_data(&mut ours.clone(), Some(&theirs), None));
    assert!(!settle_data(&mut ours.clone(), None, Some(&theirs)));
    let before = json!({ "same": encoded("before"), "odd": "as it was" });
    assert!(settle_data(&mut ours, Some(&theirs), Some(&before)));
    assert_eq!(Value::Object(ours), json!({ "same": encoded("x"), "new": encoded("y"), "odd": "as it was" }));
}

#[test]
fn a_line_is_in_its_place_if_one_next_to_it_is() {
    let is_in_place = |ours: &[&str], theirs: &[&str], before: &[&str], index: usize| {
        let text = Text { ours: ours.to_vec(), theirs: theirs.to_vec(), before: before.to_vec() };
        text.is_in_place(index)
    };
    let (ours, theirs) = (["a", "{", "X", "}", "b"], ["a", "{", "Y", "}", "b"]);
    assert!(is_in_place(&ours, &theirs, &["a", "{", "Z", "}", "b"], 2));
    assert!(is_in_place(&ours, &theirs, &["a", "{", "Z", "}", "q"], 2), "the one above");
    assert!(is_in_place(&ours, &theirs, &["q", "{", "Z", "}", "b"], 2), "the one below");
    assert!(!is_in_place(&ours, &theirs, &["q", "{", "Z", "}", "q"], 2), "brackets tell nothing");
    assert!(!is_in_place(&ours, &theirs, &["a", "{", "Z", "}"], 2), "there are other lines now");
    assert!(is_in_place(&["X", "X"], &["Y", "Y"], &["Z", "Z"], 1), "there is nothing but draws");
    assert!(is_in_place(&["a", "X", "X"], &["a", "Y", "Y"], &["a", "Z", "Z"], 2), "beyond another draw");
    assert!(!is_in_place(&["a", "X", "X"], &["a", "Y", "Y"], &["q", "X", "Z"], 2), "a draw is no mark");
}

#[test]
fn a_gap_is_what_differs_between_two_draws() {
    for (ours, theirs, prefix, drawn, suffix) in [
        ("pw=abc;", "pw=xyz;", "pw=", "abc", ";"),
        ("pw=abc", "pw=abd", "pw=", "abc", ""),
        ("x=ab@host", "x=cb@host", "x=", "ab", "@host"),
        ("ä=1ö\"", "ä=2ö\"", "ä=", "1ö", "\""),
        ("abc", "xyz", "", "abc", ""),
        ("abc/", "xyz/", "", "abc", "/"),
        ("k: aa-bb.", "k: ca-db.", "k: ", "aa-bb", "."),
        ("u:bbbb@new/x", "u:c@new/x", "u:", "bbbb", "@new/x"),
    ] {
        let gap = Gap::between(ours, theirs);
        assert_eq!((gap.prefix, gap.drawn, gap.suffix), (prefix, drawn, suffix), "{ours} {theirs}");
    }
}

#[test]
fn a_line_is_found_by_what_is_around_the_draw() {
    let gap = |prefix: &'static str, drawn: &'static str, suffix: &'static str| Gap { prefix, drawn, suffix };
    let found = |at: usize, line: &str| Some((at, line.to_owned()));
    // Only the position identifies it.
    let bare = gap("\"", "bbbb", "\",");
    assert_eq!(bare.find(&["\"aaaa\",", "\"cc\","], None), None);
    assert_eq!(bare.find(&["\"aaaa\",", "\"cc\","], Some(1)), found(1, "\"cc\","));
    assert_eq!(bare.find(&["\"aaaa\","], Some(3)), None);
    let password = gap("password=", "bbbb", "");
    assert_eq!(password.find(&["user=u", "password=aaaa"], None), found(1, "password=aaaa"));
    assert_eq!(password.find(&["password=cccc", "password=aaaa"], None), None, "there are two");
    assert_eq!(password.find(&["password=cccc", "password=aaaa"], Some(1)), found(1, "password=aaaa"));
    assert_eq!(password.find(&["password=aaaa", "user=u"], Some(1)), found(0, "password=aaaa"));
    assert_eq!(password.find(&["user=u"], None), None);
    let host = gap("", "bbbb", "@host");
    assert_eq!(host.find(&["user", "aaaa@host"], None), found(1, "aaaa@host"));
    // A line with the same prefix and suffix is a better match than one with the same prefix only.
    let url = gap("url=", "bbbb", "@new");
    assert_eq!(url.find(&["url=aaaa@old", "url=cccc@new"], None), found(1, "url=cccc@new"));
    assert_eq!(url.find(&["other", "url=aaaa@old"], None), found(1, "url=aaaa@new"));
    assert_eq!(url.find(&["other", "uri=aaaa@new"], None), found(1, "url=aaaa@new"), "it ends so");
}

#[test]
fn a_draw_is_cut_out_where_it_is_certain() {
    let url = Gap { prefix: "u:", drawn: "bbbb", suffix: "@new" };
    for (line, filled) in [
        ("u:anything@new", Some("u:anything@new")),
        ("u:aaaa@old", Some("u:aaaa@new")),
        ("u:aaaa#old", None),
        ("u:aaaaa@old", None),
        ("u:aa-a@old", None),
        ("u:aa", None),
        ("v:aaaa@new", Some("u:aaaa@new")),
        ("v=aaaa@new", None),
        ("v:a-aa@new", None),
        ("a@new", None),
        ("else", None),
    ] {
        assert_eq!(url.fill(line).as_deref(), filled, "{line}");
    }
    // A punctuation mark alone is not significant.
    let quoted = Gap { prefix: "\"", drawn: "bbbb", suffix: "\"" };
    assert!(quoted.surrounds("\"a\"") && !quoted.begins("\"a\"") && !quoted.ends("\"a\""));
    assert!(url.begins("u:x") && !url.begins("v:x") && url.ends("x@new") && !url.ends("x@old"));
    assert!(!url.surrounds("u:x@old") && !url.surrounds("v:x@new"));
}

#[test]
fn draws_are_alike_by_their_letters() {
    for (one, other) in [("abc", "x1Z"), ("a-b", "c-d"), ("", "")] {
        assert!(is_alike(one, other), "{one} {other}");
    }
    for (one, other) in [("abc", "ab"), ("ab", "abc"), ("abc", "a-c"), ("a-c", "abc"), ("a-b", "a+b")] {
        assert!(!is_alike(one, other), "{one} {other}");
    }
    assert!(has_word("{a}") && has_word("1") && !has_word("{\", }") && !has_word(""));
}

#[test]
fn hooks_keep_their_draws_too() {
    let hook = |drawn: &str| steersman_chart::Hook {
        manifest: Manifest {
            kind: "Secret".into(),
            name: "h".into(),
            content: format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: h}}\nstringData:\n  a: |\n    {drawn}"
            ),
            ..Manifest::default()
        },
        ..steersman_chart::Hook::default()
    };
    let rendered = |drawn: &str| Rendered { hooks: vec![hook(drawn)], ..Rendered::default() };
    let last = Release {
        hooks: vec![crate::record::Hook { manifest: hook("aaaa").manifest.content, ..Default::default() }],
        ..Release::default()
    };
    let mut ours = rendered("bbbb");
    keep(&mut ours, &rendered("cccc"), &last).unwrap();
    assert_eq!(
        documents(&ours.hooks[0].manifest.content).unwrap(),
        documents(&last.hooks[0].manifest).unwrap()
    );
}

#[test]
fn checksums_in_lists_follow_too() {
    let set = |mood: &str, drawn: &str| {
        let config = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" },
            "binaryData": { "x": mood }, "data": { "key": drawn },
        });
        let annotations = json!({ "Checksum": format!("sum-{drawn}"), "rollme": drawn });
        let claims = json!([{ "metadata": { "annotations": annotations } }]);
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "s" }, "spec": { "claims": claims },
        });
        vec![config, set]
    };
    let first = set("calm", "aaaa");
    let annotations = |object: &Value| object["spec"]["claims"][0]["metadata"]["annotations"].clone();
    let second = kept(&set("wild", "bbbb"), &set("wild", "cccc"), &first);
    assert_eq!(annotations(&second[1]), json!({ "Checksum": "sum-bbbb", "rollme": "aaaa" }));
    assert_eq!(kept(&set("calm", "bbbb"), &set("calm", "cccc"), &first), first);
}

#[test]
fn an_object_is_known_by_its_group_and_not_its_version() {
    let object = |api_version: &str, name: &str, namespace: &str, drawn: &str| {
        json!({
            "apiVersion": api_version, "kind": "Widget", "metadata": { "name": name, "namespace": namespace }, "drawn": drawn,
        })
    };
    let kept = |api_version: &str, name: &str, namespace: &str| {
        let own = |drawn: &str| [object(api_version, name, namespace, drawn)];
        kept(&own("bbbb"), &own("cccc"), &[object("example.com/v1", "w", "lab", "aaaa")])[0]["drawn"].clone()
    };
    assert_eq!(kept("example.com/v2", "w", "lab"), "aaaa");
    assert_eq!(kept("example.org/v1", "w", "lab"), "bbbb");
    assert_eq!(kept("example.com/v1", "x", "lab"), "bbbb");
    assert_eq!(kept("example.com/v1", "w", "den"), "bbbb");
}
