import { useShortcutGroups } from '@/lib/shortcuts'
import { Dialog } from '@/ui/dialog'
import { Kbd } from '@/ui/field'
import { isApple } from './shell'

export function ShortcutList({ open, onClose }: { open: boolean; onClose: () => void }) {
  const groups = useShortcutGroups()
  return (
    <Dialog open={open} onClose={onClose} title="Keys" wide>
      <div className="gap-x-10 sm:columns-2">
        {groups.map(group => (
          <section key={group.id} className="mb-5 break-inside-avoid">
            <h3 className="label mb-1.5">{group.name.replace(/: list$/, '')}</h3>
            <dl className="grid gap-1 text-sm">
              {group.shortcuts
                .filter(shortcut => shortcut.hidden !== true)
                .map(shortcut => (
                  <div key={shortcut.keys} className="flex items-center justify-between gap-4">
                    <dt className="text-ink-2">{shortcut.label}</dt>
                    <dd>
                      <Keys keys={shortcut.keys} />
                    </dd>
                  </div>
                ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  )
}

export function Keys({ keys }: { keys: string }) {
  const names = keys.split(' ').flatMap(key => key.split('+').filter(part => part !== ''))
  return (
    <span className="flex gap-1">
      {names.map(name => (
        <Kbd key={name}>
          {name === 'Mod'
            ? isApple()
              ? '⌘'
              : 'Ctrl'
            : name.length === 1 && keys.includes('Mod')
              ? name.toUpperCase()
              : name}
        </Kbd>
      ))}
    </span>
  )
}
