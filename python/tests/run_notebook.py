# SPDX-License-Identifier: Apache-2.0
"""Runs a notebook and prints, as JSON, the numbers that its variables hold at the end: in a kernel of IPython where
nbclient is installed (`make notebooks`), or else cell by cell as Python, in which the last expression is shown by repr.

run_notebook.py NOTEBOOK [VARIABLE...]
"""
import ast
import contextlib
import json
import sys


def numbers(names, values):
    return json.dumps({name: float(values[name]) for name in names})


def run_in_kernel(path, names):
    import nbclient
    import nbformat
    notebook = nbformat.read(path, as_version=4)
    report = f"import json; print('REPORT', json.dumps({{name: float(globals()[name]) for name in {names!r}}}))"
    notebook.cells.append(nbformat.v4.new_code_cell(report))
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    kinds = {kind for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
             for kind in output.get("data", {})}
    assert "text/html" in kinds, "no dataset or model was shown as HTML"
    (line,) = [output["text"] for output in notebook.cells[-1].outputs if "REPORT" in output.get("text", "")]
    return line.split("REPORT ", 1)[1].strip()


def run_as_python(path, names):
    values = {"__name__": "__main__"}
    with open(path, encoding="utf-8") as file:
        cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells):
        tree = ast.parse("".join(cell["source"]), f"cell {number}")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), values)
        if last is not None:
            shown = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), values)
            assert repr(shown)
            if hasattr(shown, "_repr_html_"):
                assert shown._repr_html_().startswith("<")
    return numbers(names, values)


def main():
    path, names = sys.argv[1], sys.argv[2:]
    try:
        import nbclient  # noqa: F401
    except ImportError:
        with contextlib.redirect_stdout(sys.stderr):
            report = run_as_python(path, names)
    else:
        report = run_in_kernel(path, names)
    print(report)


if __name__ == "__main__":
    main()
