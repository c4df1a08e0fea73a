//! How large a test is: CI's numbers, or those of a variable of the environment.

/// The numbers of a variable, separated by commas, or these.
///
/// # Panics
/// When the variable has others than so many numbers.
#[must_use]
pub fn sizes<const COUNT: usize>(variable: &str, usual: [u64; COUNT]) -> [u64; COUNT] {
    let Ok(text) = std::env::var(variable) else { return usual };
    let numbers: Result<Vec<u64>, _> = text.split(',').map(|number| number.trim().parse()).collect();
    let numbers = numbers.ok().and_then(|numbers| numbers.try_into().ok());
    numbers.unwrap_or_else(|| panic!("{variable}={text}: set it to {COUNT} numbers with commas between them"))
}

/// One of them, as a count.
///
/// # Panics
/// When it is larger than memory.
#[must_use]
pub fn as_count(number: u64) -> usize {
    usize::try_from(number).expect("a count of things in memory")
}
