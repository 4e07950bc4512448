"""A policy-gradient loop of one's own: klarm is two lines in it. Needs torch.

python examples/plain_loop.py [steps] [learning rate]; a rate of 5 breaks the policy.
"""

import sys

import torch

import klarm

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
LEARNING_RATE = float(sys.argv[2]) if len(sys.argv) > 2 else 0.02

# Eight prompts, sixteen answers; one answer to each prompt is right.
torch.manual_seed(0)
policy = torch.nn.Embedding(8, 16)
right = torch.randint(16, (8,))
reference = policy.weight.detach().log_softmax(-1)
optimizer = torch.optim.Adam(policy.parameters(), lr=LEARNING_RATE)

klarm.init("plain-loop")
for step in range(STEPS):
    prompts = torch.randint(8, (64,))
    log_probs = policy(prompts).log_softmax(-1)
    answers = torch.distributions.Categorical(logits=log_probs).sample()
    rewards = (answers == right[prompts]).float()
    advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
    chosen = log_probs.gather(-1, answers[:, None])[:, 0]
    kl = (log_probs.exp() * (log_probs - reference[prompts])).sum(-1).mean()
    entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
    loss = -(advantages * chosen).mean() + 0.6 * kl
    optimizer.zero_grad()
    loss.backward()
    grad_norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    klarm.log(
        {
            "kl": kl.item(),
            "entropy": entropy.item(),
            "reward": rewards.mean().item(),
            "reward_std": rewards.std().item(),
            "loss": loss.item(),
            "grad_norm": grad_norm.item(),
        },
        step=step,
    )
klarm.finish()
