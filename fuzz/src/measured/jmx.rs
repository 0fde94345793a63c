//! JMeter plans.

use holdfast_bench::load::jmx::{EXPANDED_TOTAL_BYTES_MAX, Found, Properties, read, write};

/// One file.
pub fn jmx(data: &[u8]) {
    let properties = Properties::from([("users".to_owned(), "3".to_owned()), ("path".to_owned(), "/a?b=c".to_owned())]);
    let Ok(found) = read(data, &properties) else { return };
    let kept_bytes: usize = found.plan.steps.iter().map(|step| step.body.len()).sum();
    assert!(kept_bytes <= EXPANDED_TOTAL_BYTES_MAX * found.plan.steps.len());
    for step in &found.plan.steps {
        assert!(matches!(step.url.scheme(), "http" | "https") && step.url.username().is_empty());
    }
    if found.plan.check().is_ok() {
        written_reads_back(found, &properties);
    }
}

/// What can be run can be written, and is then the same load.
fn written_reads_back(found: Found, properties: &Properties) {
    let mut plan = found.plan;
    // A password is not written.
    for step in &mut plan.steps {
        step.credentials = None;
    }
    let Ok((text, _)) = write(&plan, &found.name) else { return };
    let again = match read(text.as_bytes(), properties) {
        Ok(again) => again,
        // Escapes and headers make it longer; it may then be over a limit.
        Err(error) => {
            let error = format!("{error:#}");
            assert!(error.contains("more than") || error.contains("longer than"), "{error}: {text}");
            return;
        }
    };
    assert_eq!(again.plan, plan, "{text}");
}
