"""What a graded cell says: `assert_...` and `partial_credit`. Each raises `CheckFailed` or prints its evidence."""
