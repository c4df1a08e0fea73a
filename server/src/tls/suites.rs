//! The cipher suites, in the server's order.

use rustls::CipherSuite;
use rustls::crypto::{CryptoProvider, ring::default_provider};

/// ring's ciphers, the fastest of this machine first.
pub(super) fn provider() -> CryptoProvider {
    let mut provider = default_provider();
    if !has_fast_aes() {
        provider.cipher_suites.sort_by_key(|suite| !is_chacha(suite.suite()));
    }
    provider
}

/// Whether this machine's processor encrypts AES-GCM itself. Without that, ChaCha20 is several times faster.
pub(super) fn has_fast_aes() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    return std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

const fn is_chacha(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
    )
}
