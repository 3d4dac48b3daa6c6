"""Common English words, above all those that are one slip away from another: a name made of them is meant as written.

Data only. It need not be complete: a form that is no slip is never repaired, whether or not its words are here.
"""

from __future__ import annotations

_WORDS = """
abort accept activate adapt add admin adopt advice advise after align allow angel angle answer append apply approve
archive assert asset assign attach audit author backup balance ban bank barn base batch beard before being bill
billing bind block blot board body bolt book bool both box bran branch brand bread broad browse brunt bucket buffer
bug build burnt burst bus bust buy cache call callback calls calm cancel card care case cast casual cat catch causal
cause cell chain chair chance change char chart chat cheap cheat check choose chose city claim clam class clean clear
client clock clone close cloud code coffee color column comma comment commit common commute compare compete compile
complete compute confirm conform connect contact content contest context contract convert copy cost costs count
country county course court cover crate create created credit cross current curse custom customer cut daily dairy data
date dates day days deactivate dead deal decline decode decrease decrypt defer degree delete deny deploy desert desk
dessert destroy detach detail device dial diary dig diner dinner direct disable disconnect discreet discrete disk
dismiss dock does door dose down download draft drag draw drive drop due dump each early east eat edit eject elect
email empty enable encrypt end entry equal erase error even event ever every exact exam except exclude execute exist
exit expand expect expire expired export extend extra face fact fail fair fall false far fast feature fed fee feed
feel felt fetch field fight figure file filed files filing fill filling filter final find fire first fist fit fix flag
flash flat flight float floor flow flush fold folder follow food foot for force fork form formal format former forum
forward found four free freeze fresh friend from front full function fund gain game gate gear gender general get gird
give goal good grant grid group grow guess guest guide half halt hand handle hard has have head hear heart heat height
help here hidden hide high hire history hit hoist hold home hope hoping hopping horse host hotel hour house idea image
import in include increase index info inform input insert insight install invert invest invite invoice is issue item
items job join jump just keep key kick kill kind label labor lair land lane large last late later latter lease least
leave left length less let letter level liar life lift light like liked limit line link list live liver load loan
local location lock loft log login logout long look loop loose lose loss lost lot love low lower machine mail main
make manager manger manual map marital mark market martial mask mass master match mate mater matter max meal mean meat
media meet member memory merge message met metal method midst min mind mine minor minute mirror miss mix mobile mode
model modem modern moral morale most mount mouse mouth move multiple music must mute name near need net never new news
next nice night node noise none nose not note notice now nuclear number object off offer office offline old on once
one online only open option order orient other out outer output over own owner pack page paid pain pair panel paper
parent park part party pass past paste patch path patient pattern pause pay payment peace people percent perform
period person personal phone photo picture piece pin place plan plane plant plate play please plug point policy pool
poor pop port pose position post poster power practice prefer preform present press pretty price prices pricey
principal principle print private probe problem process produce product profile profit program project proper property
prose prove provide proxy public publish pull purge purpose push put query quest question queue quick quiet quit quite
quota quote race rail rain raise range rank rate rated rather raw reach react read ready real really reason rebase
rebuild recall receive recent recipe record recover red redo reduce refer refresh refund region register reject relate
relay release reload remain remote remove rename renew rent repair repeat replace reply report repost request require
rescan resend resent reserve reset reside resign resize resolve resource respond rest restart restore result resume
retry return reveal reverse revert review revive revoke rewind rice right ring rise risk road role roll room root rope
rotate route row rule rules run sacred safe sale salt same sample satin save scale scan scare scared scene schedule
scheme school score screen script seal search season seat second secret section secure see seek select self sell send
sender sense sent sentence separate series serve server service session set several shape shard share shared shave she
sheet shelf shell shelve shift ship shoe shop short shot should show shut side sign signal signed silver simple since
singe single site size skill skip slat sleep slide sliver slot slow small smart snap social soft some song soon sort
source space spam span speak special speed spell spend spilt spin spit split sport spot stack staff stage stain stamp
stand star stare start state states static station statue status statute stay steam step stick still stock stop
storage store story strategy stream street string strip strong style subject submit subscribe such suite sum summary
supply support sure surf swap swipe switch symbol sync system table tag tail take talk tape target task taste tax team
tear tell term test text than thank that the their them then there thin thing think this those though thought thread
threat three through throw ticket tie tied tier time times tired title to toggle token told tone too tool top topic
total touch tour tow town trace track trade traffic trail train trait transfer transform translate transport trash
travel treat tree trend trial tried trigger trip true trust try tune turn two type types unclear under undo unfollow
uninstall unit unite united units unlike unload unlock unmark unmount unmute unpack unpin unpublish unregister unset
unstage unsubscribe untag untie untied until untrack unwrap unzip up update upload upper usage use used useful user
users usual validate value values verify version very video view visit voice vote wage wait wake walk want warm warn
waste watch water way weak wear weather week weight well went were west what wheel when where whether which while
white whole wide width will win wind window wine wing wire wish with within without woman wonder wood word words work
worker world worry worse worth would wrap write wrong year yes yet young your zip zone
"""
COMMON_WORDS = frozenset(_WORDS.split())
