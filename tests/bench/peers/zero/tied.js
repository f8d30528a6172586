// Ends a process of zero-cache together with the one that forked it, whose end it would outlive otherwise. Each of them
// loads this first.

process.once("disconnect", () => process.exit());
