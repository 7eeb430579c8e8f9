"""The review page: a person settles doubtful labels, each decision kept before the page moves on."""
