"""Print coverage and width below the results, as the tests recorded them."""


def pytest_terminal_summary(terminalreporter):
    lines = [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if report.when == "call"
        for key, value in report.user_properties
        if key == "calibration"
    ]
    if lines:
        terminalreporter.section("calibration")
        for line in lines:
            terminalreporter.write_line(line)
