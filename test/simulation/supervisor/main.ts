/** `npm run simulate:supervisor -- --seeds N --from S`: runs many schedules, and stops at the first broken law. */
import { parseArgs } from 'node:util'
import { LawBroken, runSchedule } from './supervised-world.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
  },
})
const from = Number(values.from)
const until = from + Number(values.seeds)
let stops = 0
let runs = 0

for (let seed = from; seed < until; seed++) {
  try {
    const result = await runSchedule(seed)
    stops += result.stops
    runs += result.runs
  } catch (error) {
    if (!(error instanceof LawBroken)) throw error
    console.log(
      values.json ? JSON.stringify({ seed, law: error.law }) : `seed ${seed}: ${error.law}: ${error.message}`,
    )
    process.exit(1)
  }
}
if (!values.json) console.log(`seeds ${from} to ${until - 1}: ${runs} runs, ${stops} stops, no law broken`)
