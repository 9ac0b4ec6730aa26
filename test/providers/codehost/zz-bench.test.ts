import { test } from '@jest/globals'
import { realChance, realClock } from '../../../bin/clock.ts'
import { configDefaults } from '../../../protocol/config.ts'
import { pullHostFor } from '../../../providers/codehost/pull-host.ts'
import { makeCouriers } from '../../../providers/couriers.ts'
import { makeHttp } from '../../../providers/http.ts'
import { keptLog } from '../../support/quiet.ts'
import { startGithub } from '../../support/github/github.ts'
test('bench', async () => {
  const repos = Array.from({ length: 50 }, (_, i) => ({ fullName: `ada/r${i}`, members: { mona: 'push' as const } }))
  const github = await startGithub({ repos })
  for (const { fullName } of repos) await github.openPulls(fullName, 20)
  const http = makeHttp({ clock: realClock, chance: realChance })
  const couriers = makeCouriers({ http, clock: realClock, chance: realChance, log: keptLog() })
  const made = pullHostFor({ ...configDefaults, codehost: { driver: 'github', apiUrl: github.apiUrl, token: 'ghp_mona' } }, { couriers, clock: realClock })
  if (!made.ok) throw new Error(made.refusal.message)
  github.faults.latencyMs = 50
  for (let round = 0; round < 4; round++) {
    const before = github.counters.charged
    const t = performance.now()
    const all = await Promise.all(repos.map(({ fullName }) => made.value.list(fullName, 'person')))
    const total = all.reduce((n, a) => n + (a.ok ? a.value.length : -1000), 0)
    console.log('round', round, Math.round(performance.now() - t), 'ms', total, 'charged', github.counters.charged - before)
  }
  const t = performance.now()
  const d = await made.value.detail({ remote: 'ada/r1', number: 3 })
  console.log('detail', Math.round(performance.now() - t), d.ok, 'violations', github.violations)
  couriers.close(); await http.close(); await github.close()
}, 240_000)
