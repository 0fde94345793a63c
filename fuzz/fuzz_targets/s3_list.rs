#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| holdfast_fuzz::stores::s3_list(data));
