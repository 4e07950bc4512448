"""An Accelerate loop: values are averaged over all processes, and one of them watches.

accelerate launch examples/accelerate_loop.py [steps]; also runs with plain python.
"""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

import klarm

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200

accelerator = Accelerator()
set_seed(0)
policy = torch.nn.Linear(4, 16)
right = torch.randint(16, (4,))
set_seed(0, device_specific=True)  # every process samples prompts of its own
policy, optimizer = accelerator.prepare(policy, torch.optim.Adam(policy.parameters(), lr=0.02))

if accelerator.is_main_process:
    klarm.init("accelerate-loop")
for step in range(STEPS):
    prompts = torch.randint(4, (64,), device=accelerator.device)
    logits = policy(torch.nn.functional.one_hot(prompts, 4).float())
    choice = torch.distributions.Categorical(logits=logits)
    answers = choice.sample()
    rewards = (answers == right.to(accelerator.device)[prompts]).float()
    entropy = choice.entropy().mean()
    loss = -((rewards - rewards.mean()) * choice.log_prob(answers)).mean() - 0.2 * entropy
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    # Every process takes part in the mean; only the main one logs it.
    values = torch.stack([rewards.mean(), entropy, loss]).detach()
    mean_reward, mean_entropy, mean_loss = accelerator.reduce(values, reduction="mean").tolist()
    if accelerator.is_main_process:
        klarm.log({"reward": mean_reward, "entropy": mean_entropy, "loss": mean_loss}, step)
if accelerator.is_main_process:
    klarm.finish()
accelerator.end_training()
