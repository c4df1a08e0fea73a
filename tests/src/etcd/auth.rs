//! Users, their roles, and the permissions of these.

use super::control::Control;

/// A user other than root. Its role has the same name.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    /// Without a colon.
    pub name: &'a str,
    /// In plain text: it is only for a test.
    pub password: &'a str,
    /// Prefixes, and the permissions there.
    pub grants: &'a [(Access, &'a str)],
}

/// The permission of a role for a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Ranges and watches.
    Read,
    /// Puts and deletes.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::ReadWrite => "readwrite",
        }
    }
}

impl Control {
    /// Creates root and these users, and enables authentication. Returns root's control.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn auth_enable(&self, root_password: &str, accounts: &[Account<'_>]) -> Result<Self, String> {
        self.run(["user", "add", &format!("root:{root_password}")])?;
        self.run(["user", "grant-role", "root", "root"])?;
        for account in accounts {
            self.user_add(account)?;
        }
        self.run(["auth", "enable"])?;
        Ok(self.as_user("root", root_password))
    }

    /// Disables authentication.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn auth_disable(&self) -> Result<(), String> {
        self.run(["auth", "disable"]).map(drop)
    }

    /// Adds a user with its role. Every change of users makes etcd check tokens again.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn user_add(&self, account: &Account<'_>) -> Result<(), String> {
        self.run(["user", "add", &format!("{}:{}", account.name, account.password)])?;
        self.run(["role", "add", account.name])?;
        for (access, prefix) in account.grants {
            self.grant(account.name, *access, prefix)?;
        }
        self.run(["user", "grant-role", account.name, account.name]).map(drop)
    }

    /// Removes a user; its role stays.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn user_delete(&self, name: &str) -> Result<(), String> {
        self.run(["user", "delete", name]).map(drop)
    }

    /// Sets a password. The tokens of the old one end.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn user_password(&self, name: &str, password: &str) -> Result<(), String> {
        let line = format!("{password}\n");
        self.feed(vec!["user", "passwd", "--interactive=false", name], line.as_bytes()).map(drop)
    }

    /// Adds a prefix to a role.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn grant(&self, role: &str, access: Access, prefix: &str) -> Result<(), String> {
        self.run(["role", "grant-permission", "--prefix", role, access.word(), prefix]).map(drop)
    }

    /// Removes a prefix from a role.
    ///
    /// # Errors
    /// etcdctl's error.
    pub fn revoke(&self, role: &str, prefix: &str) -> Result<(), String> {
        self.run(["role", "revoke-permission", "--prefix", role, prefix]).map(drop)
    }
}
