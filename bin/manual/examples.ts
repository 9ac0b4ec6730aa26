/** Examples for the manual pages, by command. */
import type { Entry } from './topics.ts'

export const EXAMPLES: Readonly<Record<string, readonly Entry[]>> = {
  switchyard: [
    ['switchyard quickstart', 'turn three example tickets into three pull requests'],
    ['switchyard status --watch', 'watch what runs'],
    ['switchyard start ENG-12 --watch', 'start a ticket, and wait until its run has ended'],
  ],
  start: [
    ['switchyard start "Greet in Spanish" --repo api', 'make a ticket from words, and queue it'],
    ['switchyard start ENG-12 --instructions - < notes.txt', 'give the agent words from a file'],
  ],
  logs: [
    ['switchyard logs ENG-12 -f', 'follow the log until the run has ended'],
    ['switchyard logs ENG-12 --since 30m --stream stderr', 'what went wrong in the last half hour'],
  ],
  top: [['switchyard top --data-dir ~/other', 'watch the runs of another host on a board']],
  runs: [
    ['switchyard runs list --status failed', 'runs that failed'],
    ['switchyard runs wait ENG-12 --timeout 2h', 'block until it ends, for two hours at most'],
  ],
  tickets: [['switchyard tickets create "Greet in Spanish" --repo api', 'make a ticket']],
  workers: [['switchyard workers drain mica --wait', 'block until it has no run left']],
  pulls: [['switchyard pulls merge api 91 --method squash', 'merge a pull request']],
  costs: [['switchyard costs --by repo --since 7d', 'what each repository has cost in a week']],
  config: [['switchyard config set sandbox.concurrency 4', 'execute four runs at once']],
  api: [['switchyard api GET "/api/runs?limit=3"', 'read the three newest runs']],
  completion: [['source <(switchyard completion bash)', 'complete words in this shell']],
  serve: [['switchyard serve --port 4400', 'run the host']],
}
