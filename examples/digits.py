"""Handwritten digits: class centroids of encoded images, plain and refined. Needs `pip install 'carving[multilabel]'`.

prints:
centroids alone: 90 %
refined: 97 %
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from carving.hdc import CentroidClassifier

images, digits = load_digits(return_X_y=True)
train, test, known, truth = train_test_split(images, digits, test_size=0.4, random_state=0, stratify=digits)

plain = CentroidClassifier("MAP-I", d=2048, encoding="level").fit(train, known)
refined = CentroidClassifier("MAP-I", d=2048, encoding="level", refinement="margin").fit(train, known)
print(f"centroids alone: {plain.score(test, truth):.0%}".replace("%", " %"))
print(f"refined: {refined.score(test, truth):.0%}".replace("%", " %"))
