/**
 * Separate process that uses a local code host: comments repeatedly, merges in sequence, or runs a git command that
 * never ends or waits for a signal file.
 */
import { realClock } from '../../../../bin/process/clock.ts'
import { createGitRunner } from '../../../../providers/codehost/local/git-run.ts'
import { createLocalPullHost } from '../../../../providers/codehost/local/pulls.ts'

const [task = '', path = '', remote = '', count = '0', name = ''] = process.argv.slice(2)
if (task === 'comment') await comment()
else if (task === 'merge') await merge()
else if (task === 'move')
  void createGitRunner(realClock)(path)({ args: ['-c', slow(path), 'wait'], mustFinish: true })
else
  void createGitRunner(realClock)(path)({
    args: ['-c', `alias.wait=!echo $$ > '${path}/pid'; sleep 600`, 'wait'],
  })

async function comment(): Promise<void> {
  const host = createLocalPullHost({ path, clock: realClock, home: {} })
  for (let at = 0; at < Number(count); at++) {
    const answer = await host.comment({ remote, number: 1 }, `${name} ${at}`)
    if (!answer.ok) console.error(answer.refusal.message)
    else console.log(`${name} ${at}`)
  }
}

async function merge(): Promise<void> {
  const host = createLocalPullHost({ path, clock: realClock, home: {} })
  for (let number = 1; number <= Number(count); number++) {
    const answer = await host.merge({ remote, number }, 'squash')
    console.log(answer.ok ? `merged ${number}` : answer.refusal.message)
  }
}

function slow(folder: string): string {
  // Stops waiting when the folder is gone.
  const waits = `while [ -d '${folder}' ] && [ ! -e '${folder}/go' ]; do sleep 0.05; done`
  return `alias.wait=!echo > '${folder}/begun'; ${waits}; echo > '${folder}/done'`
}
