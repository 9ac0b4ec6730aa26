/** Tests of which issue a pull request closes. */
import { expect, test } from '@jest/globals'
import { buildJob, issueToClose } from '../../../core/run/job.ts'
import { configDefaults, type ServiceConfig } from '../../../protocol/config.ts'
import { aRun, aTicket } from './runs.ts'

const PUBLIC = 'https://api.github.com'
const ENTERPRISE = 'https://code.example/api/v3'
type Sections = Partial<Record<'tracker' | 'codehost', object>>

const config = ({ tracker, codehost }: Sections = {}): ServiceConfig => ({
  ...configDefaults,
  tracker: { ...configDefaults.tracker, driver: 'github', ...tracker },
  codehost: { ...configDefaults.codehost, driver: 'github', ...codehost },
})

test.each<[string, string, Sections, number | undefined]>([
  ['an issue of the repository', 'ada/lamps#12', {}, 12],
  ['an issue of the repository in other case', 'Ada/Lamps#12', {}, 12],
  ['an issue of another repository', 'ada/shades#12', {}, undefined],
  ['an id of another tracker', 't-12', {}, undefined],
  ['an issue number zero', 'ada/lamps#0', {}, undefined],
  ['another tracker', 'ada/lamps#12', { tracker: { driver: 'linear' } }, undefined],
  ['another code host', 'ada/lamps#12', { codehost: { driver: 'local' } }, undefined],
  ['the address of the code host', 'ada/lamps#12', { codehost: { apiUrl: ENTERPRISE } }, 12],
  ['another address', 'ada/lamps#12', { tracker: { apiUrl: ENTERPRISE } }, undefined],
  ['the public address in full', 'ada/lamps#12', { tracker: { apiUrl: `${PUBLIC}/` } }, 12],
])('%s', (_, id, sections, number) => {
  expect(issueToClose({ id }, 'ada/lamps', config(sections))).toBe(number)
})

test('the job of an issue names it, and others do not', () => {
  const jobOf = (id: string) =>
    buildJob({
      kind: 'run',
      run: aRun({ ticket: { ...aTicket, id } }),
      config: config(),
      repo: { key: 'lamps', mapping: { remote: 'ada/lamps' } },
      memories: [],
      storedLogBytes: 0,
    })
  expect(jobOf('ada/lamps#12').codehost).toEqual({ driver: 'github', closesIssue: 12 })
  expect(jobOf('t-12').codehost).toEqual({ driver: 'github' })
})
