# SPDX-License-Identifier: Apache-2.0
"""estoc.sklearn: scikit-learn's own checks, and what people do with estimators."""
import copy
import io
import pickle
import unittest
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils import estimator_checks

import estoc
from estoc import sklearn as models

KINDS = [getattr(models, name) for name in models.__all__]
CLASSIFIERS = [kind for kind in KINDS if kind.__name__.endswith("Classifier")]

#: Checks that are not run, and why. Any other failure fails.
_PLACES = ("rows of weight 0 still take places in mini-batches, which the order of rows decides; the check compares the same "
           "rows in another order")
SKIPPED = {
    ("check_sample_weights_invariance", "zeros"): _PLACES,
    ("check_sample_weight_equivalence_on_dense_data", None): _PLACES,  # the same from scikit-learn 1.6 on
}
#: That scikit-learn itself may skip: it needs SCIPY_ARRAY_API in the environment.
OPTIONAL = {"check_array_api_input"}


def checks(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if hasattr(estimator_checks, "estimator_checks_generator"):
            found = estimator_checks.estimator_checks_generator(kind())
        else:  # before scikit-learn 1.6
            found = estimator_checks.check_estimator(kind(), generate_only=True)
        for estimator, check in found:
            yield estimator, check, (check.func.__name__, check.keywords.get("kind"))


@pytest.mark.parametrize("kind", KINDS)
def test_checks_of_scikit_learn(kind):
    failed, skipped = [], set()
    for estimator, check, key in checks(kind):
        if key in SKIPPED:
            skipped.add(key)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                check(estimator)
            except unittest.SkipTest as exception:
                assert key[0] in OPTIONAL, f"{key}: {exception}"
            except Exception as exception:
                failed.append(f"{key}: {type(exception).__name__}: {exception}")
    assert not failed, "\n".join(failed)
    assert len(skipped) == 1  # one of them is in each version


@pytest.fixture(scope="module")
def people():
    random = np.random.RandomState(5)
    n = 600
    frame = pd.DataFrame({"age": random.randint(18, 80, n), "city": random.choice(["Bonn", "Rome", "Oslo"], n),
                          "member": random.rand(n) < 0.5, "word": [f"w{i}" for i in random.randint(0, 40, n)]})
    score = (frame["age"] - 49) / 18 + (frame["city"] == "Rome") * 2 - frame["member"] * 1.5
    return frame, np.where(score > 0, "yes", "no"), score.to_numpy() * 10 + 500


@pytest.mark.parametrize("kind", [models.DNNRegressor, models.WideDeepRegressor])
def test_the_value_of_a_row_does_not_depend_on_other_rows(kind, monkeypatch):
    monkeypatch.setattr(models, "_PREDICT_ROWS", 64)
    X = np.random.RandomState(0).randn(150, 13)
    model = kind(epochs=2, random_state=0).fit(X, X[:, 0] * X[:, 1])
    found = model.predict(X)
    assert np.array_equal(found, [model.predict(row[None])[0] for row in X])
    assert all(np.array_equal(found[:n], model.predict(X[:n])) for n in (63, 64, 65, 128, 149))


@pytest.mark.parametrize("kind", KINDS)
def test_frames_with_categories(kind, people):
    frame, classes, values = people
    model = kind(random_state=1)
    model.fit(frame, classes if kind in CLASSIFIERS else values)
    assert model.score(frame, classes if kind in CLASSIFIERS else values) > 0.9
    assert model.n_features_in_ == 4 and list(model.feature_names_in_) == ["age", "city", "member", "word"]
    if kind in CLASSIFIERS:
        assert list(model.classes_) == ["no", "yes"]
        probabilities = model.predict_proba(frame)
        assert probabilities.shape == (600, 2) and np.allclose(probabilities.sum(1), 1, atol=1e-6)
        assert (model.predict(frame) == model.classes_[probabilities.argmax(1)]).all()
    new = frame.head(3).assign(city=["Bonn", "Atlantis", None])
    assert len(model.predict(new)) == 3  # categories that fit did not see, and missing ones


def test_arrays_of_objects(people):
    frame, classes, _ = people
    by_frame = models.LinearClassifier(random_state=1).fit(frame[["age", "city"]], classes)
    by_array = models.LinearClassifier(random_state=1).fit(frame[["age", "city"]].to_numpy(dtype=object), classes)
    assert np.array_equal(by_frame.predict_proba(frame[["age", "city"]]),
                          by_array.predict_proba(frame[["age", "city"]].to_numpy(dtype=object)))


def test_categorical_and_nullable_dtypes(people):
    frame, classes, _ = people
    other = frame.assign(city=frame["city"].astype("category"), age=frame["age"].astype("Int16"),
                         member=frame["member"].astype("boolean"), word=frame["word"].astype("string"))
    first = models.WideDeepClassifier(random_state=2, epochs=3).fit(frame, classes)
    second = models.WideDeepClassifier(random_state=2, epochs=3).fit(other, classes)
    assert np.array_equal(first.predict_proba(frame), second.predict_proba(other))


def test_hashed_categories(people):
    frame, classes, _ = people
    model = models.LinearClassifier(random_state=1, max_vocabulary=10, hash_buckets=50).fit(frame, classes)
    assert model.score(frame, classes) > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_random_state_decides(kind):
    X, y = make_blobs(120, random_state=0)
    same = [kind(random_state=3, epochs=2).fit(X, y).predict(X) for _ in range(2)]
    assert np.array_equal(*same)
    if kind in (models.DNNRegressor, models.WideDeepRegressor):  # other initial values
        assert not np.array_equal(same[0], kind(random_state=4, epochs=2).fit(X, y).predict(X))


@pytest.mark.parametrize("kind", KINDS)
def test_copies(kind, people):
    frame, classes, values = people
    model = kind(random_state=1, epochs=2).fit(frame, classes if kind in CLASSIFIERS else values)
    want = model.predict(frame)
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), joblib.load(file)):
        assert np.array_equal(other.predict(frame), want)
    with pytest.raises(NotFittedError):
        clone(model).predict(frame)


def test_sample_weight():
    X = np.array([[0.0], [0.0], [1.0], [1.0]] * 20)
    y = np.array([0, 1, 0, 1] * 20)
    heavy = np.where(y == 1, 9.0, 1.0)
    assert models.LinearClassifier(random_state=0).fit(X, y, sample_weight=heavy).predict_proba(X)[0, 1] == \
        pytest.approx(0.9, abs=0.03)
    assert models.LinearRegressor(random_state=0).fit(X, y, sample_weight=heavy).predict(X)[0] == \
        pytest.approx(0.9, abs=0.03)


def test_warm_start(people):
    frame, classes, _ = people
    model = models.LinearClassifier(random_state=1, epochs=1, batch_size=200, warm_start=True)
    scores = [model.fit(frame, classes).predict_proba(frame)[:, 1] for _ in range(3)]
    assert not np.array_equal(scores[0], scores[1])
    cold = models.LinearClassifier(random_state=1, epochs=1, batch_size=200)
    assert np.array_equal(cold.fit(frame, classes).predict_proba(frame)[:, 1], scores[0])
    assert np.array_equal(cold.fit(frame, classes).predict_proba(frame)[:, 1], scores[0])
    with pytest.raises(ValueError, match="classes that the last fit did not have"):
        model.fit(frame, np.where(classes == "yes", "maybe", "no"))


def test_grid_search_and_pipeline():
    X, y = make_blobs(150, random_state=1)
    search = GridSearchCV(models.DNNClassifier(random_state=0, epochs=5), {"hidden_units": [(4,), (16, 8)],
                                                                          "learning_rate": [0.02]}, cv=3, n_jobs=2)
    search.fit(X, y)
    assert search.best_score_ > 0.85
    assert search.best_estimator_.get_params()["hidden_units"] in ((4,), (16, 8))
    X, y = make_regression(150, 5, random_state=2)
    pipeline = make_pipeline(MinMaxScaler(), models.LinearRegressor(random_state=0))
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.9


def test_mistakes(people):
    frame, classes, _ = people
    model = models.LinearClassifier(epochs=1).fit(frame, classes)
    with pytest.raises(ValueError, match="column 1 of X has numbers, and had categories in fit"):
        model.predict(frame.assign(city=1))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"city": "town"}))
    with pytest.raises(ValueError, match="optimizer is 'Newton'; it is one of"):
        models.LinearClassifier(optimizer="Newton").fit(frame, classes)
    with pytest.raises(ValueError, match="epochs is 0"):
        models.DNNClassifier(epochs=0).fit(frame, classes)
    with pytest.raises(ValueError, match="NaN"):
        models.DNNClassifier().fit(frame.assign(age=np.nan), classes)
    assert models.LinearClassifier(optimizer=estoc.optimizers.SGD(0.1), epochs=1).fit(frame, classes).classes_.size == 2
