/** A process of its own that uses a local code host: comments as often as it is told, or starts a git that never ends. */
import { realClock } from '../../../bin/clock.ts'
import { gitRunner } from '../../../providers/codehost/git-run.ts'
import { localPullHost } from '../../../providers/codehost/local-pulls.ts'

const [task = '', path = '', remote = '', count = '0', name = ''] = process.argv.slice(2)
if (task === 'comment') await comment()
else
  void gitRunner(realClock)(path)({ args: ['-c', `alias.wait=!echo $$ > '${path}/pid'; sleep 600`, 'wait'] })

async function comment(): Promise<void> {
  const host = localPullHost({ path, clock: realClock, home: {} })
  for (let at = 0; at < Number(count); at++) {
    const answer = await host.comment({ remote, number: 1 }, `${name} ${at}`)
    if (!answer.ok) console.error(answer.refusal.message)
    else console.log(`${name} ${at}`)
  }
}
