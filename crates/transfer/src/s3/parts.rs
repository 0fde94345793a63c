//! Parts of a multipart upload, as the service lists them and as it is told to put them together.

use super::Inner;
use super::failure::About;
use super::journal::Begun;
use super::listing::LIST_BYTES_MAX;
use holdfast_base::{Error, Result};
use holdfast_blob::s3::Call;
use holdfast_blob::xml::walk;
use http::{Method, StatusCode};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A part that the service has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) bytes: u64,
    pub(super) etag: String,
}

/// Parts that the service has of an upload; none if it does not know it.
pub(super) async fn parts_of(inner: &Inner, begun: &Begun) -> Result<Option<BTreeMap<u32, Part>>> {
    let (mut all, mut after) = (BTreeMap::new(), 0);
    loop {
        let call = Call::new(Method::GET).key(&begun.key).query("uploadId", &begun.upload);
        let reply = inner.bucket.send(call.query("part-number-marker", &after.to_string())).await?;
        match reply.answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            _ => return Err(inner.bucket.failure(reply, About::Object).await),
        }
        let (parts, more) = parse_parts(&reply.text(LIST_BYTES_MAX).await?)?;
        all.extend(parts);
        match all.last_key_value() {
            Some((last, _)) if more && *last > after => after = *last,
            _ => return Ok(Some(all)),
        }
    }
}

fn parse_parts(xml: &[u8]) -> Result<(Vec<(u32, Part)>, bool)> {
    let (mut parts, mut part, mut number, mut more, mut is_list) = (Vec::new(), Part::default(), None, false, false);
    walk(xml, |path, text| {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match path[..] {
            [_, "Part", "PartNumber"] => number = text.trim().parse().ok(),
            [_, "Part", "Size"] => part.bytes = text.trim().parse().unwrap_or(0),
            [_, "Part", "ETag"] => text.trim().clone_into(&mut part.etag),
            [_, "Part"] => parts.extend(number.take().map(|number| (number, std::mem::take(&mut part)))),
            [_, "IsTruncated"] => more = text.trim() == "true",
            [root] => is_list = root == "ListPartsResult",
            _ => {}
        }
        Ok(())
    })?;
    if is_list { Ok((parts, more)) } else { Err(Error::damaged("the service's answer is not the list it should be")) }
}

/// Parts that are as long as they should be: of `part_bytes`, the last of what is left of `size`.
pub(super) fn that_fit(mut parts: BTreeMap<u32, Part>, part_bytes: u64, size: u64) -> BTreeMap<u32, Part> {
    parts.retain(|number, part| {
        let left =
            u64::from(*number).checked_sub(1).and_then(|before| size.checked_sub(before.checked_mul(part_bytes)?));
        !part.etag.is_empty() && part.bytes > 0 && left.is_some_and(|left| part.bytes == part_bytes.min(left))
    });
    parts
}

/// The body of `CompleteMultipartUpload`.
pub(super) fn parts_xml(parts: &BTreeMap<u32, Part>) -> String {
    let mut xml = String::from("<CompleteMultipartUpload>");
    for (number, part) in parts {
        let etag = part.etag.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
        // Writing to a string cannot fail.
        let _ = write!(xml, "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>");
    }
    xml + "</CompleteMultipartUpload>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_is_the_parts_that_are_whole() {
        let xml = r"<ListPartsResult><IsTruncated>false</IsTruncated>
<Part><PartNumber>1</PartNumber><ETag>&quot;a&quot;</ETag><Size>8</Size></Part>
<Part><PartNumber>2</PartNumber><ETag>&quot;b&quot;</ETag><Size>8</Size></Part>
<Part><PartNumber>4</PartNumber><ETag>&quot;d&quot;</ETag><Size>8</Size></Part></ListPartsResult>";
        let (parts, more) = parse_parts(xml.as_bytes()).expect("a list");
        let parts: BTreeMap<u32, Part> = parts.into_iter().collect();
        assert!(!more && parts.len() == 3);
        let that_fit = |part_bytes, size| that_fit(parts.clone(), part_bytes, size).into_keys().collect::<Vec<_>>();
        assert_eq!(that_fit(8, 100), [1, 2, 4]);
        assert_eq!(that_fit(8, 32), [1, 2, 4]);
        assert_eq!(that_fit(8, 31), [1, 2], "the fourth is too long");
        assert_eq!(that_fit(8, 24), [1, 2], "there is no fourth");
        assert!(that_fit(4, 100).is_empty());
    }
}
