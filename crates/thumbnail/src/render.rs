//! From a file to a small JPEG. Runs in a worker only.

use crate::{PICTURE_BYTES_MAX, PIXELS_MAX, SOURCE_EDGE_MAX};
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageEncoder, ImageReader, Limits, Rgb, RgbImage};
use std::io::Cursor;

/// Of 100: nobody sees a difference to more at this size.
const QUALITY: u8 = 80;

/// What is behind a picture that one can see through: black and white drawings are seen on it, on light pages and dark ones.
const BACKDROP: Rgb<u8> = Rgb([226, 226, 232]);

/// Largest colour profile that is kept.
const PROFILE_BYTES_MAX: usize = 4 << 10;

/// A picture that fits into a square of this edge, none if the file is no picture that can be drawn.
pub(crate) fn render(file: &[u8], edge: u32) -> Option<Vec<u8>> {
    let (picture, profile) = decode(file, edge)?;
    let picture = opaque(&picture);
    let mut out = Vec::new();
    let mut encoder = JpegEncoder::new_with_quality(&mut out, QUALITY);
    if let Some(profile) = profile {
        encoder.set_icc_profile(profile).ok()?;
    }
    encoder.write_image(&picture, picture.width(), picture.height(), image::ExtendedColorType::Rgb8).ok()?;
    (out.len() <= PICTURE_BYTES_MAX).then_some(out)
}

fn decode(file: &[u8], edge: u32) -> Option<(DynamicImage, Option<Vec<u8>>)> {
    let mut limits = Limits::no_limits();
    limits.max_image_width = Some(SOURCE_EDGE_MAX);
    limits.max_image_height = Some(SOURCE_EDGE_MAX);
    limits.max_alloc = Some(PIXELS_MAX * 4);
    let mut reader = ImageReader::new(Cursor::new(file)).with_guessed_format().ok()?;
    reader.limits(limits);
    let mut decoder = reader.into_decoder().ok()?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > PIXELS_MAX || decoder.total_bytes() > PIXELS_MAX * 4 {
        return None;
    }
    let turned = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let profile = decoder.icc_profile().ok().flatten().filter(|profile| is_of_rgb(profile));
    let whole = DynamicImage::from_decoder(decoder).ok()?;
    let mut small = shrink(whole, edge);
    small.apply_orientation(turned);
    Some((small, profile))
}

/// Quickly to twice the size, then well to the size itself. Small pictures stay as they are.
fn shrink(mut picture: DynamicImage, edge: u32) -> DynamicImage {
    let longest = |picture: &DynamicImage| picture.width().max(picture.height());
    if longest(&picture) > edge * 4 {
        picture = picture.thumbnail(edge * 2, edge * 2);
    }
    if longest(&picture) > edge { picture.resize(edge, edge, FilterType::CatmullRom) } else { picture }
}

/// Whether a colour profile (ICC) is one of colours as our JPEG has them: what was CMYK or grey is not any more.
fn is_of_rgb(profile: &[u8]) -> bool {
    profile.len() <= PROFILE_BYTES_MAX && profile.get(16..20) == Some(b"RGB ")
}

/// JPEG has no transparency.
fn opaque(picture: &DynamicImage) -> RgbImage {
    if !picture.color().has_alpha() {
        return picture.to_rgb8();
    }
    let through = picture.to_rgba8();
    RgbImage::from_fn(through.width(), through.height(), |x, y| {
        let [red, green, blue, alpha] = through.get_pixel(x, y).0;
        let [behind_red, behind_green, behind_blue] = BACKDROP.0;
        Rgb([mix(red, behind_red, alpha), mix(green, behind_green, alpha), mix(blue, behind_blue, alpha)])
    })
}

fn mix(front: u8, behind: u8, alpha: u8) -> u8 {
    let (front, behind, alpha) = (u32::from(front), u32::from(behind), u32::from(alpha));
    u8::try_from((front * alpha + behind * (255 - alpha) + 127) / 255).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EDGES;
    use image::{ImageFormat, Rgba, RgbaImage};

    fn encoded(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        picture.write_to(&mut out, format).expect("encodes");
        out.into_inner()
    }

    /// Left half red, right half blue.
    fn halves(width: u32, height: u32) -> DynamicImage {
        let colour = |x| if x < width / 2 { Rgb([250, 10, 10]) } else { Rgb([10, 10, 250]) };
        DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, |x, _| colour(x)))
    }

    fn rendered(file: &[u8], edge: u32) -> RgbImage {
        let picture = render(file, edge).expect("is drawn");
        image::load_from_memory_with_format(&picture, ImageFormat::Jpeg).expect("is a JPEG").to_rgb8()
    }

    fn is_like(pixel: Rgb<u8>, wanted: [u8; 3]) -> bool {
        pixel.0.iter().zip(wanted).all(|(is, wanted)| is.abs_diff(wanted) < 24)
    }

    /// A JPEG with an EXIF block that says how the camera was held.
    fn with_orientation(jpeg: &[u8], orientation: u8) -> Vec<u8> {
        let tiff = [
            b"Exif\0\0II*\0\x08\0\0\0\x01\0".as_slice(),
            &[0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0],
            &[0, 0, 0, 0],
        ];
        let tiff = tiff.concat();
        let length = u16::try_from(tiff.len() + 2).expect("short").to_be_bytes();
        [&jpeg[..2], &[0xff, 0xe1], &length, &tiff, &jpeg[2..]].concat()
    }

    #[test]
    fn every_type_that_is_tried_is_drawn_in_both_sizes_and_never_made_larger() {
        for format in [ImageFormat::Jpeg, ImageFormat::Png, ImageFormat::Gif, ImageFormat::WebP] {
            let large = encoded(&halves(1600, 800), format);
            for edge in EDGES {
                let small = rendered(&large, edge);
                assert_eq!((small.width(), small.height()), (edge, edge / 2), "{format:?}");
                assert!(is_like(*small.get_pixel(3, 3), [250, 10, 10]), "{format:?}");
                assert!(is_like(*small.get_pixel(edge - 4, 3), [10, 10, 250]), "{format:?}");
            }
            let tiny = rendered(&encoded(&halves(20, 10), format), EDGES[0]);
            assert_eq!((tiny.width(), tiny.height()), (20, 10));
        }
    }

    #[test]
    fn a_picture_is_turned_as_the_camera_was_held() {
        let jpeg = encoded(&halves(800, 400), ImageFormat::Jpeg);
        // 6: its right side is the top of what the file has.
        let turned = rendered(&with_orientation(&jpeg, 6), EDGES[0]);
        assert_eq!((turned.width(), turned.height()), (128, 256));
        assert!(is_like(*turned.get_pixel(64, 5), [250, 10, 10]) && is_like(*turned.get_pixel(64, 250), [10, 10, 250]));
        let about = rendered(&with_orientation(&jpeg, 3), EDGES[0]);
        assert!(is_like(*about.get_pixel(5, 5), [10, 10, 250]));
    }

    #[test]
    fn what_one_can_see_through_has_a_backdrop() {
        let clear = DynamicImage::ImageRgba8(RgbaImage::from_pixel(300, 300, Rgba([0, 0, 0, 0])));
        let picture = rendered(&encoded(&clear, ImageFormat::Png), EDGES[0]);
        assert!(is_like(*picture.get_pixel(9, 9), BACKDROP.0));
        assert_eq!((mix(255, 0, 255), mix(255, 0, 0), mix(200, 100, 128)), (255, 0, 150));
    }

    #[test]
    fn what_is_no_picture_is_not_drawn() {
        let png = encoded(&halves(600, 600), ImageFormat::Png);
        for file in
            [&b""[..], b"GIF89a", b"<svg xmlns='http://www.w3.org/2000/svg'/>", &png[..png.len() / 2], &[0xff; 999]]
        {
            assert!(render(file, EDGES[0]).is_none());
        }
    }

    #[test]
    fn grey_deep_and_indexed_pictures_are_drawn() {
        for picture in [halves(400, 100).to_luma8().into(), DynamicImage::ImageRgb16(halves(400, 100).to_rgb16())] {
            let picture: DynamicImage = picture;
            assert_eq!(rendered(&encoded(&picture, ImageFormat::Png), EDGES[0]).width(), 256);
        }
    }
}
