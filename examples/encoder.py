"""A small transformer that predicts the topics of texts, out of 20,000: `OSCHead` replaces the output layer.

prints:
outputs: 1,024 instead of 20,000
stored by the head: 12,160 numbers instead of 1,300,000 weights
both topics ranked first in more than 80 % of the texts: True
"""

import torch
from torch import nn

from carving.multilabel import OSCHead

TOPICS, USED, WORDS, WIDE = 20_000, 40, 200, 64
torch.manual_seed(0)
topics = torch.randperm(TOPICS)[:USED]  # topics that occur in the corpus
brings = torch.randint(WORDS, (USED, 5))  # each topic has five words


def corpus(texts):
    """Draw texts of two topics: three words of each topic and two random words, shuffled."""
    own = torch.rand(texts, USED).argsort(1)[:, :2]
    words = brings[own].gather(2, torch.rand(texts, 2, 5).argsort(2)[..., :3]).flatten(1)
    words = torch.cat([words, torch.randint(WORDS, (texts, 2))], 1)
    return words.gather(1, torch.rand(words.shape).argsort(1)), topics[own].sort(1).values


class Encoder(nn.Module):
    """Embedding, one attention layer, mean pooling and a linear layer of the width that the head needs."""

    def __init__(self, outputs):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDE)
        self.layer = nn.TransformerEncoderLayer(WIDE, 4, 2 * WIDE, dropout=0.0, batch_first=True)
        self.last = nn.Linear(WIDE, outputs)

    def forward(self, texts):
        """Return the outputs (texts, width)."""
        return self.last(self.layer(self.words(texts)).mean(1))


head = OSCHead(TOPICS, d=96, dictionary=0)
network = Encoder(head.width)
optimizer = torch.optim.Adam(network.parameters(), 3e-3)
for _ in range(200):
    texts, own = corpus(64)
    optimizer.zero_grad()
    head.loss(network(texts), own.tolist()).backward()
    optimizer.step()
texts, own = corpus(200)
with torch.no_grad():
    found = head.top(network.eval()(texts), 2).indices.sort(1).values
right = (found == own).all(1).float().mean()
print(f"outputs: {head.width:,} instead of {TOPICS:,}")
kept = sum(numbers.numel() for numbers in head.buffers())
print(f"stored by the head: {kept:,} numbers instead of {TOPICS * (WIDE + 1):,} weights")
print(f"both topics ranked first in more than 80 % of the texts: {bool(right > 0.8)}")
