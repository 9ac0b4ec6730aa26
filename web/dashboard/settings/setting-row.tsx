/** A setting in its place: key, meaning, value and default; it is changed where it stands. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { patchOf } from '../../../client/settings.ts'
import { AGENTS } from '../../../protocol/agents/registry.ts'
import { Button } from '../../elements/button.tsx'
import { showError } from '../../elements/toasts.ts'
import { address } from '../../router.ts'
import { decodeOrKeep } from '../../text/decode.ts'
import { settingAddress } from '../addresses.ts'
import { changeSettings, SettingEditor } from './setting-editor.tsx'
import type { PlacedSetting } from './setting-model.ts'

export function SettingRow({ placed }: { readonly placed: PlacedSetting }) {
  const { setting, key, isChanged } = placed
  const isEdited = useSignal(false)
  const row = useRef<HTMLDivElement>(null)
  const isLinked = decodeOrKeep(address.value.fragment) === key
  useEffect(() => {
    if (isLinked) row.current?.scrollIntoView({ block: 'center' })
  }, [isLinked])
  const close = () => {
    isEdited.value = false
    // The button is there again only after the next drawing.
    requestAnimationFrame(() => row.current?.querySelector<HTMLElement>('.setting-acts button')?.focus())
  }
  return (
    <div ref={row} id={key} class={`setting${isLinked ? ' linked' : ''}`} role="group" aria-label={key}>
      <div class="setting-about">
        <a class="setting-key mono" href={settingAddress(key)} aria-current={isLinked ? 'true' : undefined}>
          {key}
        </a>
        {isChanged && setting.default !== undefined && <span class="tag changed">changed</span>}
        {setting.needsRestart === true && <span class="tag">after a restart</span>}
        <p class="quiet">{setting.meaning}</p>
      </div>
      {isEdited.value ? (
        <SettingEditor placed={placed} close={close} />
      ) : (
        <>
          <div class="setting-value">
            <SettingValue placed={placed} />
          </div>
          <SettingActs
            placed={placed}
            edit={() => {
              isEdited.value = true
            }}
          />
        </>
      )}
    </div>
  )
}

interface SettingActsProps {
  readonly placed: PlacedSetting
  readonly edit: () => void
}

function SettingActs({ placed: { setting, key, parts, value, isChanged }, edit }: SettingActsProps) {
  if (setting.kind === 'credential') return <div class="setting-acts" />
  const send = (to: unknown) => changeSettings(patchOf(parts, to), key).then(() => {}, showError)
  const canGoBack =
    isChanged && value !== undefined && (setting.default !== undefined || setting.isOptional === true)
  return (
    <div class="setting-acts">
      {setting.kind === 'switch' && value !== undefined ? (
        <Button
          small
          label={`${value === true ? 'Turn off' : 'Turn on'} ${key}`}
          act={() => send(value !== true)}
        >
          {value === true ? 'Turn off' : 'Turn on'}
        </Button>
      ) : (
        <Button small label={`${value === undefined ? 'Set' : 'Change'} ${key}`} act={edit}>
          {value === undefined ? 'Set' : 'Change'}
        </Button>
      )}
      {canGoBack && (
        <Button
          small
          kind="plain-quiet"
          label={`${setting.default === undefined ? 'Unset' : 'Use default of'} ${key}`}
          act={() => send(null)}
        >
          {setting.default === undefined ? 'Unset' : 'Use default'}
        </Button>
      )}
    </div>
  )
}

// ---- values --------------------------------------------------------------------------------------------------------

/** The value of a setting in words, with its default where it differs. A secret is only said to be set. */
function SettingValue({ placed: { setting, key, value, isChanged } }: { readonly placed: PlacedSetting }) {
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
