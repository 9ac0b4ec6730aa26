/** The value of a setting in words, with its default where it differs. A secret is only said to be set. */
import { AGENTS } from '../../../protocol/agents/registry.ts'
import type { PlacedSetting } from './setting-model.ts'

export function SettingValue({
  placed: { setting, key, value, isChanged },
}: {
  readonly placed: PlacedSetting
}) {
  const { kind } = setting
  if (kind === 'credential')
    return (
      <>
        {value === undefined || value === '' ? <span class="faint">not set</span> : 'set'}{' '}
        <a href={`/connect#${providerOf(key)}`}>Connect</a>
      </>
    )
  if (kind === 'secret')
    return value === undefined || value === '' ? <span class="faint">not set</span> : <span>set</span>
  return (
    <>
      <Shown value={value} />
      {isChanged && setting.default !== undefined && (
        <span class="setting-default faint">
          default <Shown value={setting.default} />
        </span>
      )}
    </>
  )
}

function Shown({ value }: { readonly value: unknown }) {
  if (value === undefined) return <span class="faint">not set</span>
  if (value === '') return <span class="faint">empty</span>
  if (typeof value === 'boolean') return <span>{value ? 'on' : 'off'}</span>
  if (Array.isArray(value))
    return value.length === 0 ? (
      <span class="faint">none</span>
    ) : (
      <span class="setting-list">
        {value.map((entry) => (
          <code key={String(entry)}>{String(entry)}</code>
        ))}
      </span>
    )
  if (typeof value === 'object' && value !== null)
    return (
      <span class="setting-list">
        {Object.entries(value).map(([name, inner]) => (
          <code key={name}>
            {name} {typeof inner === 'object' ? JSON.stringify(inner) : String(inner)}
          </code>
        ))}
      </span>
    )
  const text = String(value)
  return text.includes('\n') ? <pre class="setting-text">{text}</pre> : <code>{text}</code>
}

/** The provider of an agent's credential is in its name: `agent.agentAApiKey`. */
function providerOf(key: string): string {
  const [section = '', field = ''] = key.split('.')
  return Object.keys(AGENTS).find((provider) => field.startsWith(provider)) ?? section
}
