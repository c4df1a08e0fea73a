//! Numbers as text, without an allocation.

/// `n` in decimal, in `space`.
#[must_use]
pub fn decimal(n: u64, space: &mut [u8; 20]) -> &[u8] {
    let mut at = space.len();
    let mut rest = n;
    loop {
        at -= 1;
        space[at] = b'0' + (rest % 10).to_le_bytes()[0];
        rest /= 10;
        if rest == 0 {
            return &space[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        for n in [0, 7, 10, 999, u64::MAX] {
            assert_eq!(decimal(n, &mut [0; 20]), n.to_string().as_bytes());
        }
    }
}
