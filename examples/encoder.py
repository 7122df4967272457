"""A small transformer that names the topics of texts, of 20,000 topics: `OSCHead` in the place of its last layer.

prints:
outputs: 1,024 instead of 20,000
beside the network: 12,160 numbers instead of 1,300,000 weights
both topics of a text are the two best in more than 80 % of them: True
"""

import torch
from torch import nn

from carving.labels import OSCHead

TOPICS, USED, WORDS, WIDE = 20_000, 40, 200, 64
torch.manual_seed(0)
topics = torch.randperm(TOPICS)[:USED]  # those that the corpus speaks of
brings = torch.randint(WORDS, (USED, 5))  # each brings five words along


def corpus(texts):
    """Texts of two topics: three words of each, and two of no meaning."""
    own = torch.rand(texts, USED).argsort(1)[:, :2]
    words = brings[own].gather(2, torch.rand(texts, 2, 5).argsort(2)[..., :3]).flatten(1)
    words = torch.cat([words, torch.randint(WORDS, (texts, 2))], 1)
    return words.gather(1, torch.rand(words.shape).argsort(1)), topics[own].sort(1).values


class Encoder(nn.Module):
    """Words to a vector: embedding, a layer of attention, the mean, and as many outputs as the head wants."""

    def __init__(self, outputs):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDE)
        self.layer = nn.TransformerEncoderLayer(WIDE, 4, 2 * WIDE, dropout=0.0, batch_first=True)
        self.last = nn.Linear(WIDE, outputs)

    def forward(self, texts):
        """The outputs for texts."""
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
print(f"beside the network: {kept:,} numbers instead of {TOPICS * (WIDE + 1):,} weights")
print(f"both topics of a text are the two best in more than 80 % of them: {bool(right > 0.8)}")
