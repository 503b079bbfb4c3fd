"""The speed verdict: two functions are sent to a process that does nothing but measure, and its answer is told.

The journey of a candidate, by the names it meets:

    speedup                            speedup.py           in the notebook
      Comparison                       request.py           as an Artefact or a Source, with its Inputs: a Load
      decide, deliver, Bench.ask       speedup.py, bench.py
        send(Load)                     wire/messages.py     written by wire/codec.py and wire/frames.py
        Jobs.answer                    worker/main.py, jobs.py        in the measuring process
          build: Local, or Remote      worker/sides.py      Remote asks the guest: Prepare, Run, GetResult
            Repeated, or Fresh         worker/inputs.py     what is compiled, or code that could remember
          or Cold                      worker/cold.py       each call in a process that fork_server.py forks
          disagreement                 worker/agreement.py  ends in OtherStructure or OtherValues
        Loaded
      decide, Bench.ask
        send(Contest)
        Jobs.answer, contest           worker/jobs.py, contest.py     pairs of blocks, timed by worker/clock.py
            slow                       worker/yardstick.py  pairs that do not count, because the core is slow
          Verdict                      verdict.py           says when there are enough
        Outcome
      settle                           verdict.py           near the bar another process is asked the same
      interval, Speedup                verdict.py, speedup.py         the printed line, and picture.py

Two processes, and each reads its own modules: the notebook those of this folder, the measuring process and its guest
those of `worker`. Shared on purpose: `wire`, which is what they say to each other, and `verdict`, the rule.
"""
