/** Tests of a run's budget at the model proxy, against a vendor that bills what it is asked: law 38. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { PRICES } from '../../../../core/run/price-table.ts'
import {
  answerWhole,
  askModel,
  BillingVendor,
  type MeteredRun,
  shownUsd,
} from '../../../support/billing-vendor.ts'
import { until } from '../../../support/until.ts'

const MODEL = 'claude-opus-5-5'
/** An answer of 10,000 tokens costs $0.20. */
const question = (model = MODEL) => ({
  model,
  max_tokens: 10_000,
  messages: [{ role: 'user', content: 'hi' }],
})
const ANSWER_USD = 0.2
const BUDGET_USD = 1
/** The few tokens of a question. */
const INPUT_USD = 0.01

const vendor = new BillingVendor()
let run: MeteredRun

beforeAll(() => vendor.open())
beforeEach(async () => {
  vendor.bills.length = 0
  vendor.seen.length = 0
  vendor.answer = answerWhole
  run = await vendor.openRun({ maxCostUsd: BUDGET_USD })
})
afterEach(() => run.close())
afterAll(() => vendor.close())

function expectLawful(oneRequestUsd = ANSWER_USD + INPUT_USD): void {
  expect(shownUsd(run)).toBeGreaterThanOrEqual(vendor.billedUsd() - 1e-6)
  expect(vendor.billedUsd()).toBeLessThanOrEqual(BUDGET_USD + oneRequestUsd)
}

test('32 requests at once spend no more than the budget and one request', async () => {
  const asked = Array.from({ length: 32 }, () => askModel(run, question()).answered)
  const statuses = (await Promise.all(asked)).map(({ status }) => status)
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(4)
  expect(new Set(statuses)).toEqual(new Set([200, 403]))
  expectLawful()
  expect(run.exhausted[0]).toMatch(/agent\.maxCostUsd allows/)
})

test('a request that does not fit waits until another settles', async () => {
  const held: (() => void)[] = []
  vendor.answer = (response, billed) => void held.push(() => answerWhole(response, billed))
  const dear = { ...question(), max_tokens: 40_000 }
  const [first, second, third] = [askModel(run, dear), askModel(run, dear), askModel(run, dear)]
  await until('two are under way', () => held.length === 2)
  for (const answer of held.splice(0)) answer()
  expect((await first.answered).status + (await second.answered).status).toBe(400)
  expect((await third.answered).status).toBe(403)
  expect(vendor.bills).toHaveLength(2)
  expectLawful(0.8 + INPUT_USD)
})

test('requests that are hung up before the answer begins cost what they cost', async () => {
  const held: (() => void)[] = []
  vendor.answer = (response, billed) => void held.push(() => answerWhole(response, billed))
  for (let asked = 0; asked < 40; asked++) {
    const before = vendor.bills.length
    const { answered, hangUp } = askModel(run, question())
    let isOver = false
    void answered.then(() => {
      isOver = true
    })
    await until('the vendor was asked, or nothing is left', () => vendor.bills.length > before || isOver)
    hangUp()
    for (const answer of held.splice(0)) answer()
    await until('its costs are shown', () => shownUsd(run) >= vendor.billedUsd() - 1e-6)
  }
  expectLawful()
  expect(vendor.bills.length).toBeLessThanOrEqual(6)
})

test('an answer that is hung up in its middle is read to its end', async () => {
  vendor.answer = (response, { model, use }) => {
    const usage = { input_tokens: use.inputTokens, output_tokens: 1 }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(`data: ${JSON.stringify({ type: 'message_start', message: { model, usage } })}\n\n`)
    const delta = { type: 'message_delta', usage: { output_tokens: use.outputTokens } }
    setTimeout(() => response.end(`data: ${JSON.stringify(delta)}\n\n`), 50)
  }
  const { hangUp } = askModel(run, question())
  await until('the answer has begun', () => shownUsd(run) > 0)
  hangUp()
  await until('the whole answer is counted', () => shownUsd(run) >= vendor.billedUsd() - 1e-6)
  expect(run.meter.rows()).toMatchObject([{ model: MODEL, outputTokens: 10_000 }])
})

test('an answer that never comes costs its worst case, one that never left costs nothing', async () => {
  vendor.answer = (response) => response.destroy()
  expect((await askModel(run, question()).answered).status).toBe(502)
  expect(run.meter.rows()).toMatchObject([{ model: MODEL, outputTokens: 10_000 }])
  expectLawful()
  const unreachable = new BillingVendor()
  await unreachable.open()
  const nobody = await unreachable.openRun({})
  await unreachable.close()
  expect((await askModel(nobody, question()).answered).status).toBe(502)
  expect(nobody.meter.rows()).toEqual([])
  await nobody.close()
})

test('the end of a run counts what is under way', async () => {
  vendor.answer = (response, { model, use }) => {
    const usage = { input_tokens: use.inputTokens, output_tokens: use.outputTokens }
    setTimeout(() => response.end(JSON.stringify({ model, usage })), 50)
  }
  const { answered } = askModel(run, question())
  await until('it is under way', () => vendor.bills.length === 1)
  await run.close()
  expect((await answered).status).toBe(0)
  expectLawful()
  expect(run.meter.rows()).toMatchObject([{ cacheWriteTokens: 0, outputTokens: 10_000 }])
})

test('a model that no list names is bound by the budget, and shown', async () => {
  expect(Object.keys(PRICES.models)).not.toContain('claude-next')
  const asked = Array.from({ length: 10 }, () => askModel(run, question('claude-next')).answered)
  const statuses = (await Promise.all(asked)).map(({ status }) => status)
  expect(statuses).toContain(403)
  expect(run.meter.rows()).toMatchObject([{ model: 'claude-next' }])
  expectLawful(0.75 + INPUT_USD)
})

test('a refused request costs nothing', async () => {
  vendor.answer = (response) => response.writeHead(529).end('{"error":{}}')
  expect((await askModel(run, question()).answered).status).toBe(529)
  expect(shownUsd(run)).toBe(0)
})
