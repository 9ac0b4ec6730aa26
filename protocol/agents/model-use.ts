/**
 * `ModelUse` says what an agent may ask its model's vendor for: tools that run there, models, and prices.
 *
 * The host has it from its configuration, and sends it along with the credential.
 */
import Type, { type Static } from 'typebox'
import { MODEL_PATTERNS_MAX, MODEL_PRICES_MAX, PRICE_USD_MAX } from '../limits.ts'
import { boundedList, record, stringEnum } from '../schema-helpers.ts'

/** Tools that run at a vendor, and things that a vendor would fetch or keep. */
export const SERVER_TOOLS = ['web_search', 'web_fetch', 'mcp', 'code_execution', 'files', 'urls'] as const
export type ServerTool = (typeof SERVER_TOOLS)[number]

export const ServerTools = boundedList(stringEnum(SERVER_TOOLS), SERVER_TOOLS.length)

export const ModelPatterns = boundedList(
  Type.String({
    pattern: '^[A-Za-z0-9*][A-Za-z0-9*._:@/\\[\\]-]{0,99}$',
    'x-expects': 'the name of a model; * stands for any characters',
  }),
  MODEL_PATTERNS_MAX,
)

const Usd = Type.Number({ minimum: 0, maximum: PRICE_USD_MAX })
const MODEL_NAME = '^[A-Za-z0-9][A-Za-z0-9._:@/\\[\\]-]{0,99}$'
const price = { input: Usd, output: Usd, cacheRead: Type.Optional(Usd), cacheWrite: Type.Optional(Usd) }

/** As people write them: by the name of the model. */
export const ModelPrices = Type.Record(Type.String({ pattern: MODEL_NAME }), record('OwnModelPrice', price), {
  additionalProperties: false,
  maxProperties: MODEL_PRICES_MAX,
  'x-expects-key': 'the name of a model',
})

const JobModelPrice = record('JobModelPrice', { model: Type.String({ pattern: MODEL_NAME }), ...price })
export type JobModelPrice = Static<typeof JobModelPrice>

export const ModelUse = record('ModelUse', {
  serverTools: Type.Optional(ServerTools),
  models: Type.Optional(ModelPatterns),
  prices: Type.Optional(boundedList(JobModelPrice, MODEL_PRICES_MAX)),
})
